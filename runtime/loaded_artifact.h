#ifndef KILN_RUNTIME_LOADED_ARTIFACT_H_
#define KILN_RUNTIME_LOADED_ARTIFACT_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/artifact_view.h"
#include "runtime/device.h"
#include "runtime/opened_device.h"

namespace kiln {

// An artifact on a device: its modules loaded, its kernels found by name, its
// constants uploaded. Loading launches nothing. Immutable; unloads when
// destroyed, which waits for the device.
class LoadedArtifact {
 public:
  // ARTIFACT_CORRUPT       an image is not object code or lacks a kernel
  // ARTIFACT_INCOMPATIBLE  an image is for another architecture
  // RESOURCE_EXHAUSTED     no memory for the constants
  static absl::StatusOr<std::shared_ptr<const LoadedArtifact>> Load(
      ArtifactView view, const OpenedDevice& on);

  ~LoadedArtifact();
  LoadedArtifact(const LoadedArtifact&) = delete;
  LoadedArtifact& operator=(const LoadedArtifact&) = delete;

  const ArtifactView& view() const { return view_; }
  Device& device() const { return *on_.device; }
  const std::shared_ptr<Device>& shared_device() const { return on_.device; }
  ExternLibrary& externs() const { return *on_.externs; }
  // In the order of the plan's kernels and constants.
  const std::vector<KernelHandle>& kernels() const { return kernels_; }
  const std::vector<void*>& constants() const { return constants_; }

 private:
  LoadedArtifact(ArtifactView view, OpenedDevice on);

  absl::Status LoadModules();
  absl::Status UploadConstants();

  const ArtifactView view_;
  const OpenedDevice on_;
  std::vector<std::unique_ptr<Module>> modules_;
  std::vector<KernelHandle> kernels_;
  std::vector<void*> constants_;
  void* constant_memory_ = nullptr;
  int64_t constant_bytes_ = 0;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_LOADED_ARTIFACT_H_
