/* The CPU form of the kernels: kernels.cu seen by a C++ compiler. */
#include "kernels.cu"
