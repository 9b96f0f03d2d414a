#include "runtime/extern_kernels/cudnn_backend.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {

CudnnBackend::~CudnnBackend() {
  if (descriptor_ != nullptr)
    library_->functions().cudnnBackendDestroyDescriptor(descriptor_);
}

absl::StatusOr<CudnnBackend> CudnnBackend::Create(const Cudnn& library,
                                                  int kind) {
  CudnnDescriptor descriptor = nullptr;
  RETURN_IF_ERROR(library.Check(
      library.functions().cudnnBackendCreateDescriptor(kind, &descriptor),
      absl::StrCat("cudnnBackendCreateDescriptor ", kind)));
  return CudnnBackend(library, descriptor);
}

absl::Status CudnnBackend::Set(int attribute, int type, const void* value,
                               int64_t count) {
  return library_->Check(library_->functions().cudnnBackendSetAttribute(
                             descriptor_, attribute, type, count, value),
                         absl::StrCat("cudnnBackendSetAttribute ", attribute));
}

absl::Status CudnnBackend::SetInts(int attribute,
                                   absl::Span<const int64_t> values) {
  return Set(attribute, kCudnnIntType, values.data(),
             static_cast<int64_t>(values.size()));
}

absl::Status CudnnBackend::SetDescriptors(
    int attribute, absl::Span<const CudnnDescriptor> values) {
  return Set(attribute, kCudnnDescriptorType, values.data(),
             static_cast<int64_t>(values.size()));
}

absl::StatusOr<int64_t> CudnnBackend::Get(int attribute, int type, int64_t room,
                                          void* out) const {
  int64_t count = 0;
  RETURN_IF_ERROR(
      library_->Check(library_->functions().cudnnBackendGetAttribute(
                          descriptor_, attribute, type, room, &count, out),
                      absl::StrCat("cudnnBackendGetAttribute ", attribute)));
  return count;
}

absl::Status CudnnBackend::Finalize() {
  const Cudnn::Functions& f = library_->functions();
  const int status = f.cudnnBackendFinalize(descriptor_);
  if (status == 0) return absl::OkStatus();
  std::array<char, 512> words{};
  f.cudnnGetLastErrorString(words.data(), words.size());
  return library_->Check(status,
                         absl::StrCat("cudnnBackendFinalize: ", words.data()));
}

}  // namespace kiln
