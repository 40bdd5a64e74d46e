# libnccl.so.2: the communication stand-in; included after the target vgpu_cudart is made.
if(NOT TARGET vgpu_cudart OR NOT HM_NCCL_INCLUDE)
  message(STATUS "virtual GPU: no libnccl stand-in (needs libcudart's and nccl.h)")
  return()
endif()
file(GLOB vgpu_nccl_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/nccl_*.c)
add_library(vgpu_nccl SHARED ${vgpu_nccl_sources})
target_include_directories(vgpu_nccl PRIVATE ${CMAKE_CURRENT_LIST_DIR})
target_include_directories(vgpu_nccl SYSTEM PRIVATE ${HM_NCCL_INCLUDE} ${CUDAToolkit_INCLUDE_DIRS}
  ${HM_CUPTI_INCLUDE})
# Integer sums wrap as on the device.
target_compile_options(vgpu_nccl PRIVATE -fwrapv)
target_link_options(vgpu_nccl PRIVATE
  -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/nccl.map)
target_link_libraries(vgpu_nccl PRIVATE hm_flags vgpu_cudart Threads::Threads
  ${CMAKE_DL_LIBS} m rt)
set_target_properties(vgpu_nccl PROPERTIES OUTPUT_NAME nccl SOVERSION 2 C_VISIBILITY_PRESET hidden
  LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/nccl.map
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/vgpu
  BUILD_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
