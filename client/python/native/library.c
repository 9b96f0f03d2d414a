#define _GNU_SOURCE /* RTLD_DEEPBIND */
#include "client/python/native/library.h"

#include <dlfcn.h>
#include <stdio.h>

KilnLibrary kiln_library;

int kiln_library_open(const char* path, char* message, int message_bytes) {
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (handle == NULL) {
    snprintf(message, message_bytes, "%s", dlerror());
    return -1;
  }
  KilnLibrary found;
#define KILN_LIBRARY_FIND(name)                                     \
  *(void**)&found.name = dlsym(handle, #name);                      \
  if (found.name == NULL) {                                         \
    snprintf(message, message_bytes, "%s: has no %s", path, #name); \
    return -1;                                                      \
  }
  KILN_LIBRARY_FUNCTIONS(KILN_LIBRARY_FIND)
#undef KILN_LIBRARY_FIND
  const uint32_t version = found.kiln_abi_version();
  if (version != KILN_ABI_VERSION) {
    snprintf(message, message_bytes, "%s: ABI version %u, expected %d", path,
             (unsigned)version, KILN_ABI_VERSION);
    return -1;
  }
  kiln_library = found;
  return 0;
}
