#include "runtime/loaded_artifact.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Where each constant starts: the widest vector access, and what CUDA gives.
constexpr int64_t kConstantAlignment = 256;

int64_t AlignedUp(int64_t bytes) {
  return (bytes + kConstantAlignment - 1) / kConstantAlignment *
         kConstantAlignment;
}

// Of each kernel: the most dynamic shared memory that a launch of it asks for.
std::vector<uint32_t> MostSharedBytes(const Plan& plan) {
  std::vector<uint32_t> most(plan.kernels.size(), 0);
  for (const PlanStep& step : plan.steps) {
    const auto* launch = std::get_if<PlanLaunch>(&step);
    if (launch == nullptr) continue;
    uint32_t& bytes = most[launch->kernel];
    bytes = std::max(bytes, launch->shared_bytes);
  }
  return most;
}

}  // namespace

LoadedArtifact::LoadedArtifact(ArtifactView view, OpenedDevice on)
    : view_(std::move(view)), on_(std::move(on)) {}

LoadedArtifact::~LoadedArtifact() {
  // Runs of it may still be under way: unloading waits for them, so that the
  // constants go after the last reader.
  modules_.clear();
  if (constant_memory_ != nullptr) {
    device().allocator().Free(constant_memory_, constant_bytes_, nullptr);
  }
}

absl::StatusOr<std::shared_ptr<const LoadedArtifact>> LoadedArtifact::Load(
    ArtifactView view, const OpenedDevice& on) {
  std::shared_ptr<LoadedArtifact> loaded(
      new LoadedArtifact(std::move(view), on));
  ASSIGN_OR_RETURN(const CurrentDevice current, on.device->MakeCurrent());
  RETURN_IF_ERROR(loaded->LoadModules());
  RETURN_IF_ERROR(Annotate(loaded->UploadConstants(), "constants"));
  return std::shared_ptr<const LoadedArtifact>(std::move(loaded));
}

absl::Status LoadedArtifact::LoadModules() {
  for (size_t i = 0; i < view_.images().size(); ++i) {
    absl::StatusOr<std::unique_ptr<Module>> module =
        device().LoadModule(view_.images()[i]);
    if (!module.ok()) {
      return Annotate(module.status(), absl::StrCat("module ", i));
    }
    modules_.push_back(*std::move(module));
  }
  const Plan& plan = view_.plan();
  const std::vector<uint32_t> shared_bytes = MostSharedBytes(plan);
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const PlanKernel& kernel = plan.kernels[i];
    ASSIGN_OR_RETURN(
        const KernelHandle handle,
        modules_[kernel.module]->FindKernel(kernel.symbol, shared_bytes[i]));
    kernels_.push_back(handle);
  }
  return absl::OkStatus();
}

absl::Status LoadedArtifact::UploadConstants() {
  for (const PlanConstant& constant : view_.plan().constants) {
    constant_bytes_ += AlignedUp(constant.bytes.size());
  }
  if (constant_bytes_ == 0) {
    constants_.resize(view_.plan().constants.size(), nullptr);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(constant_memory_,
                   device().allocator().Allocate(constant_bytes_, nullptr));
  char* next = static_cast<char*>(constant_memory_);
  for (const PlanConstant& constant : view_.plan().constants) {
    constants_.push_back(next);
    RETURN_IF_ERROR(device().Upload(constant.bytes.data(), next,
                                    constant.bytes.size(), nullptr));
    next += AlignedUp(constant.bytes.size());
  }
  // Runs may come on any stream.
  return device().Synchronize(nullptr);
}

}  // namespace kiln
