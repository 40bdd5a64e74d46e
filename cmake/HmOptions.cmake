# What can be switched, and the flags every target of ours is built with.
include(CTest)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

set(HM_WITH_CUDA AUTO CACHE STRING "CUDA toolkit: CUPTI source and virtual GPU (AUTO, ON, OFF)")
set(HM_WITH_MPI AUTO CACHE STRING "MPI: examples and tests only (AUTO, ON, OFF)")
set(HM_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")
option(HM_BUILD_VGPU "Build the virtual GPU (stand-ins for libcudart, libcupti, libnccl)" ON)
option(HM_WERROR "Warnings are errors" OFF)

add_library(hm_flags INTERFACE)
target_compile_definitions(hm_flags INTERFACE _GNU_SOURCE HM_VERSION="${PROJECT_VERSION}")
target_compile_options(hm_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes
  -Wmissing-prototypes -Wvla -Wformat=2 -Wundef -fno-strict-aliasing)
target_include_directories(hm_flags INTERFACE ${CMAKE_SOURCE_DIR}/lib ${CMAKE_SOURCE_DIR}/lib/include
  ${CMAKE_BINARY_DIR}/generated)
if(HM_WERROR)
  target_compile_options(hm_flags INTERFACE -Werror)
endif()
if(HM_SANITIZE)
  target_compile_options(hm_flags INTERFACE -fsanitize=${HM_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(hm_flags INTERFACE -fsanitize=${HM_SANITIZE})
endif()
