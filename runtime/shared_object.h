#ifndef KILN_RUNTIME_SHARED_OBJECT_H_
#define KILN_RUNTIME_SHARED_OBJECT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/device.h"

namespace kiln {

// Loads a shared object from memory (memfd_create and dlopen): no file is
// written. It holds one file descriptor while loaded, because glibc takes an
// equal path for the same object, and a descriptor's number is in the path.
//
// ARTIFACT_CORRUPT  the image is more than kernels (object_code.h), or the
//                   loader refuses it: its own words
// RESOURCE_EXHAUSTED  no descriptor or no memory for it
absl::StatusOr<std::unique_ptr<Module>> LoadSharedObject(
    absl::string_view image);

}  // namespace kiln

#endif  // KILN_RUNTIME_SHARED_OBJECT_H_
