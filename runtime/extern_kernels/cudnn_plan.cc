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
constexpr int kKnobChoiceKind = 7;
constexpr int kPackKind = 16;

// Types of attributes of these descriptors alone.
constexpr int kHeuristicType = 8;
constexpr int kKnobTypeType = 9;
constexpr int kNumericalNoteType = 11;
constexpr int kBehaviorNoteType = 19;

// Attributes (cudnnBackendAttributeName_t).
constexpr int kHeuristicMode = 200, kHeuristicGraph = 201,
              kHeuristicResults = 202;
constexpr int kConfigEngine = 300, kConfigKnobs = 302;
constexpr int kPlanHandle = 400, kPlanConfig = 401, kPlanWorkspace = 402;
constexpr int kKnobType = 600, kKnobValue = 601;
constexpr int kPackIds = 1000, kPackAddresses = 1001, kPackWorkspace = 1003;
constexpr int kEngineIndex = 1301, kEngineNumbers = 1303,
              kEngineBehavior = 1305;

constexpr int kHeuristicA = 3, kHeuristicFallback = 2;
constexpr int kHeuristics[] = {kHeuristicA, kHeuristicFallback};
constexpr int kEnginesAsked = 16;
constexpr int kMostKnobs = 32;
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
  if (!rules.named.empty()) {
    if (plan.TakeNamed(handle, rules)) return plan;
    plan.library_->TellOfLack(rules.named);
  }
  for (const int mode : kHeuristics) {
    absl::StatusOr<std::vector<CudnnBackend>> configs = plan.Configs(mode);
    const absl::Status status =
        configs.ok()
            ? plan.TakeEngine(handle, *std::move(configs), rules, refusals)
            : configs.status();
    if (status.ok()) return plan;
    if (refusals.empty()) refusals = std::string(status.message());
  }
  return MakeError(ErrorReason::kUnsupportedOp,
                   absl::StrCat("cuDNN has no engine for it: ", refusals));
}

bool CudnnPlan::TakeNamed(void* handle, const CudnnEngineRules& rules) {
  for (const int mode : kHeuristics) {
    absl::StatusOr<std::vector<CudnnBackend>> configs = Configs(mode);
    if (!configs.ok()) continue;
    for (CudnnBackend& config : *configs) {
      if (NameOf(config).value_or("") == rules.named)
        return TakeConfig(handle, std::move(config), rules).ok();
    }
  }
  return false;
}

absl::StatusOr<std::vector<std::string>> CudnnPlan::Engines(
    std::shared_ptr<const Cudnn> library, void* handle, CudnnBackend graph,
    const CudnnEngineRules& rules, int most) {
  CudnnPlan plan;
  plan.library_ = std::move(library);
  plan.graph_ = std::move(graph);
  std::vector<std::string> names;
  for (const int mode : kHeuristics) {
    absl::StatusOr<std::vector<CudnnBackend>> configs = plan.Configs(mode);
    if (!configs.ok()) continue;
    for (CudnnBackend& config : *configs) {
      if (static_cast<int>(names.size()) >= most) return names;
      ASSIGN_OR_RETURN(std::string name, plan.NameOf(config));
      if (std::find(names.begin(), names.end(), name) == names.end() &&
          plan.TakeConfig(handle, std::move(config), rules).ok()) {
        names.push_back(std::move(name));
      }
    }
  }
  return names;
}

absl::StatusOr<std::vector<CudnnBackend>> CudnnPlan::Configs(int mode) const {
  ASSIGN_OR_RETURN(CudnnBackend heuristic,
                   CudnnBackend::Create(*library_, kHeuristicKind));
  RETURN_IF_ERROR(heuristic.SetDescriptors(kHeuristicGraph, {graph_.get()}));
  RETURN_IF_ERROR(heuristic.SetEnum(kHeuristicMode, kHeuristicType, mode));
  RETURN_IF_ERROR(heuristic.Finalize());
  return Described(heuristic, kHeuristicResults, kEngineConfigKind,
                   kEnginesAsked);
}

// Descriptors of `kind` that an attribute of `from` has, `most` at most.
absl::StatusOr<std::vector<CudnnBackend>> CudnnPlan::Described(
    const CudnnBackend& from, int attribute, int kind, int most) const {
  std::vector<CudnnDescriptor> raw;
  std::vector<CudnnBackend> described;
  for (int i = 0; i < most; ++i) {
    ASSIGN_OR_RETURN(CudnnBackend one, CudnnBackend::Create(*library_, kind));
    raw.push_back(one.get());
    described.push_back(std::move(one));
  }
  ASSIGN_OR_RETURN(const int64_t found,
                   from.Get(attribute, kCudnnDescriptorType, most, raw.data()));
  described.resize(std::min<int64_t>(found, most));
  return described;
}

absl::Status CudnnPlan::TakeEngine(void* handle,
                                   std::vector<CudnnBackend> configs,
                                   const CudnnEngineRules& rules,
                                   std::string& refusals) {
  const size_t found = configs.size();
  for (CudnnBackend& config : configs) {
    const absl::Status status = TakeConfig(handle, std::move(config), rules);
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
                     absl::StrCat(bytes, " bytes of workspace, expected at most ",
                                  rules.most_workspace_bytes));
  }
  workspace_bytes_ = bytes;
  config_ = std::move(config);
  plan_ = std::move(plan);
  return absl::OkStatus();
}

std::string CudnnPlan::EngineName() const {
  return NameOf(config_).value_or("");
}

absl::StatusOr<std::string> CudnnPlan::NameOf(
    const CudnnBackend& config) const {
  ASSIGN_OR_RETURN(const CudnnBackend engine, EngineOf(config));
  int64_t index = 0;
  RETURN_IF_ERROR(engine.Get(kEngineIndex, kCudnnIntType, 1, &index).status());
  std::string name = absl::StrCat("engine", index);
  const absl::StatusOr<std::vector<CudnnBackend>> knobs =
      Described(config, kConfigKnobs, kKnobChoiceKind, kMostKnobs);
  if (!knobs.ok()) return name;  // an engine without any
  for (const CudnnBackend& knob : *knobs) {
    int type = 0;
    int64_t value = 0;
    RETURN_IF_ERROR(knob.Get(kKnobType, kKnobTypeType, 1, &type).status());
    RETURN_IF_ERROR(knob.Get(kKnobValue, kCudnnIntType, 1, &value).status());
    absl::StrAppend(&name, ".", type, "=", value);
  }
  return name;
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
        absl::StrCat("an engine with the numerical notes ", numbers,
                     ", expected none of ", rules.refused_numbers));
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
