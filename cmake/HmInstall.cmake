# Relocatable install tree: programs and libraries find each other through $ORIGIN.
if(TARGET hindmost)
  install(TARGETS hindmost RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET hindmost-writer)
  install(TARGETS hindmost-writer RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/hindmost)
endif()
if(TARGET hindmost-recorder)
  install(TARGETS hindmost-recorder LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(CODE "file(CREATE_LINK libnccl-profiler-hindmost.so \
\"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/libhindmost.so\" SYMBOLIC)")
endif()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/lib/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# `python -m hindmost`, in the build tree at the same place as in the install tree.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/lib/python/ DESTINATION ${CMAKE_INSTALL_DATADIR}/hindmost/python
  FILES_MATCHING PATTERN "*.py")
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/share/hindmost)
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/lib/python ${CMAKE_BINARY_DIR}/share/hindmost/python SYMBOLIC)
