#include "runtime/extern_kernels/cudnn_plan.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Descriptors (cudnnBackendDescriptorType_t).
constexpr int kEngineKind = 2;
constexpr int kEngineConfigKind = 3;
constexpr int kHeuristicKind = 4;
constexpr int kPlanKind = 5;
constexpr int kPackKind = 16;

// Types of attributes of these descriptors alone.
constexpr int kHeuristicType = 8;
constexpr int kNumericalNoteType = 11;
constexpr int kBehaviorNoteType = 19;

// Attributes (cudnnBackendAttributeName_t).
constexpr int kHeuristicMode = 200, kHeuristicGraph = 201,
              kHeuristicResults = 202;
constexpr int kConfigEngine = 300;
constexpr int kPlanHandle = 400, kPlanConfig = 401, kPlanWorkspace = 402;
constexpr int kPackIds = 1000, kPackAddresses = 1001, kPackWorkspace = 1003;
constexpr int kEngineIndex = 1301, kEngineNumbers = 1303,
              kEngineBehavior = 1305;

constexpr int kHeuristicA = 3, kHeuristicFallback = 2;
constexpr int kEnginesAsked = 16;
constexpr int kCompiledAtRunTime = 0;  // cudnnBackendBehaviorNote_t
constexpr int kMostNotes = 32;

// The notes of an engine, as bits.
absl::StatusOr<uint32_t> Notes(const CudnnBackend& engine, int attribute,
                               int type) {
  std::array<int, kMostNotes> notes{};
  ASSIGN_OR_RETURN(const int64_t count,
                   engine.Get(attribute, type, kMostNotes, notes.data()));
  uint32_t bits = 0;
  for (int64_t i = 0; i < std::min<int64_t>(count, kMostNotes); ++i) {
    if (notes[i] < kMostNotes) bits |= uint32_t{1} << notes[i];
  }
  return bits;
}

}  // namespace

absl::StatusOr<CudnnPlan> CudnnPlan::Make(std::shared_ptr<const Cudnn> library,
                                          void* handle, CudnnBackend graph,
                                          const CudnnEngineRules& rules,
                                          std::vector<CudnnScalar> scalars) {
  CudnnPlan plan;
  plan.library_ = std::move(library);
  plan.scalars_ = std::move(scalars);
  plan.graph_ = std::move(graph);
  std::string refusals;
  for (const int mode : {kHeuristicA, kHeuristicFallback}) {
    const absl::Status status = plan.TakeEngine(handle, mode, rules, refusals);
    if (status.ok()) return plan;
    if (refusals.empty()) refusals = std::string(status.message());
  }
  return MakeError(ErrorReason::kUnsupportedOp,
                   absl::StrCat("cuDNN has no engine for it: ", refusals));
}

absl::Status CudnnPlan::TakeEngine(void* handle, int mode,
                                   const CudnnEngineRules& rules,
                                   std::string& refusals) {
  ASSIGN_OR_RETURN(CudnnBackend heuristic,
                   CudnnBackend::Create(*library_, kHeuristicKind));
  RETURN_IF_ERROR(heuristic.SetDescriptors(kHeuristicGraph, {graph_.get()}));
  RETURN_IF_ERROR(heuristic.SetEnum(kHeuristicMode, kHeuristicType, mode));
  RETURN_IF_ERROR(heuristic.Finalize());
  std::vector<CudnnDescriptor> raw;
  std::vector<CudnnBackend> configs;
  for (int i = 0; i < kEnginesAsked; ++i) {
    ASSIGN_OR_RETURN(CudnnBackend config,
                     CudnnBackend::Create(*library_, kEngineConfigKind));
    raw.push_back(config.get());
    configs.push_back(std::move(config));
  }
  ASSIGN_OR_RETURN(const int64_t found,
                   heuristic.Get(kHeuristicResults, kCudnnDescriptorType,
                                 kEnginesAsked, raw.data()));
  for (int64_t i = 0; i < std::min<int64_t>(found, kEnginesAsked); ++i) {
    const absl::Status status =
        TakeConfig(handle, std::move(configs[i]), rules);
    if (status.ok()) return status;
    absl::StrAppend(&refusals, refusals.empty() ? "" : "; ", status.message());
  }
  return MakeError(ErrorReason::kUnsupportedOp,
                   absl::StrCat("none of ", found, " engines"));
}

absl::Status CudnnPlan::TakeConfig(void* handle, CudnnBackend config,
                                   const CudnnEngineRules& rules) {
  RETURN_IF_ERROR(CheckEngine(config, rules));
  ASSIGN_OR_RETURN(CudnnBackend plan,
                   CudnnBackend::Create(*library_, kPlanKind));
  RETURN_IF_ERROR(plan.Set(kPlanHandle, kCudnnHandleType, &handle));
  RETURN_IF_ERROR(plan.SetDescriptors(kPlanConfig, {config.get()}));
  RETURN_IF_ERROR(plan.Finalize());
  int64_t bytes = 0;
  RETURN_IF_ERROR(plan.Get(kPlanWorkspace, kCudnnIntType, 1, &bytes).status());
  if (bytes > rules.most_workspace_bytes) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat(bytes, " bytes of workspace, due at most ",
                                  rules.most_workspace_bytes));
  }
  workspace_bytes_ = bytes;
  config_ = std::move(config);
  plan_ = std::move(plan);
  return absl::OkStatus();
}

std::string CudnnPlan::EngineName() const {
  int64_t index = 0;
  const absl::StatusOr<CudnnBackend> engine = EngineOf(config_);
  if (!engine.ok() ||
      !engine->Get(kEngineIndex, kCudnnIntType, 1, &index).ok()) {
    return "";
  }
  return absl::StrCat("engine ", index);
}

absl::StatusOr<CudnnBackend> CudnnPlan::EngineOf(
    const CudnnBackend& config) const {
  ASSIGN_OR_RETURN(CudnnBackend engine,
                   CudnnBackend::Create(*library_, kEngineKind));
  CudnnDescriptor raw = engine.get();
  RETURN_IF_ERROR(
      config.Get(kConfigEngine, kCudnnDescriptorType, 1, &raw).status());
  return engine;
}

absl::Status CudnnPlan::CheckEngine(const CudnnBackend& config,
                                    const CudnnEngineRules& rules) const {
  if (rules.refused_numbers == 0 && rules.compiled_at_run_time)
    return absl::OkStatus();
  ASSIGN_OR_RETURN(const CudnnBackend engine, EngineOf(config));
  ASSIGN_OR_RETURN(const uint32_t numbers,
                   Notes(engine, kEngineNumbers, kNumericalNoteType));
  if ((numbers & rules.refused_numbers) != 0) {
    return MakeError(
        ErrorReason::kUnsupportedOp,
        absl::StrCat("an engine whose numerical notes are ", numbers,
                     ", due none of ", rules.refused_numbers));
  }
  ASSIGN_OR_RETURN(const uint32_t behavior,
                   Notes(engine, kEngineBehavior, kBehaviorNoteType));
  if (!rules.compiled_at_run_time &&
      (behavior & (uint32_t{1} << kCompiledAtRunTime)) != 0) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     "an engine that is compiled at run time");
  }
  return absl::OkStatus();
}

absl::Status CudnnPlan::Run(void* handle,
                            absl::Span<const CudnnBinding> bindings,
                            void* workspace) const {
  absl::InlinedVector<int64_t, 16> ids;
  absl::InlinedVector<const void*, 16> addresses;
  for (const CudnnScalar& scalar : scalars_) {
    ids.push_back(scalar.id);
    addresses.push_back(&scalar.value);
  }
  for (const CudnnBinding& binding : bindings) {
    ids.push_back(binding.id);
    addresses.push_back(binding.address);
  }
  ASSIGN_OR_RETURN(CudnnBackend pack,
                   CudnnBackend::Create(*library_, kPackKind));
  RETURN_IF_ERROR(pack.SetInts(kPackIds, ids));
  RETURN_IF_ERROR(pack.Set(kPackAddresses, kCudnnAddressType, addresses.data(),
                           static_cast<int64_t>(addresses.size())));
  RETURN_IF_ERROR(pack.Set(kPackWorkspace, kCudnnAddressType, &workspace));
  RETURN_IF_ERROR(pack.Finalize());
  return library_->Check(library_->functions().cudnnBackendExecute(
                             handle, plan_.get(), pack.get()),
                         "cudnnBackendExecute");
}

}  // namespace kiln
