#include "client/c_api/c_graph_host.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

using graph_tree::Call;
using graph_tree::Function;
using graph_tree::Input;
using graph_tree::InputUse;
using graph_tree::Output;
using graph_tree::OutputRule;
using graph_tree::PoolState;
using graph_tree::Storage;
using graph_tree::Tensor;

absl::Status Failed(absl::string_view name) {
  return absl::InternalError(absl::StrCat("the framework's ", name, " failed"));
}

struct HostPoolState : PoolState {
  explicit HostPoolState(const KilnGraphHost& host_) : host(host_) {}
  ~HostPoolState() override { host.free_checkpoint(host.context, checkpoint); }
  const KilnGraphHost& host;
  void* checkpoint = nullptr;
};

void TellOutput(void* outputs, const KilnGraphOutput* output) {
  static_cast<std::vector<Output>*>(outputs)->push_back(
      {output->is_tensor != 0, output->on_device != 0, output->storage_address,
       output->storage});
}

// Without storages.
std::vector<KilnGraphInput> InputsOf(const Call& call) {
  std::vector<KilnGraphInput> inputs;
  for (const Input& input : call.inputs) {
    inputs.push_back({input.is_tensor, input.address, nullptr, nullptr});
  }
  return inputs;
}

// Numbers of both enums are the same.
KilnGraphUse UseOf(InputUse use) {
  switch (use) {
    case InputUse::kNone:
      return KILN_GRAPH_NO_TENSOR;
    case InputUse::kStatic:
      return KILN_GRAPH_STATIC;
    case InputUse::kManaged:
      return KILN_GRAPH_MANAGED;
    case InputUse::kCopied:
      return KILN_GRAPH_COPIED;
  }
  return KILN_GRAPH_NO_TENSOR;
}

class HostRecording : public graph_tree::Recording {
 public:
  explicit HostRecording(const KilnGraphHost& host) : host_(host) {}
  ~HostRecording() override {
    if (recording_) host_.free_recording(host_.context, recording_);
  }

  absl::Status Capture(const Function& function, Call& call,
                       absl::Span<const InputUse> uses) {
    std::vector<KilnGraphUse> given;
    for (const InputUse use : uses) given.push_back(UseOf(use));
    recording_ = host_.record(host_.context, function.body, call.caller,
                              given.data(), static_cast<int32_t>(given.size()),
                              &TellOutput, &outputs_);
    return recording_ ? absl::OkStatus() : Failed("record");
  }

  absl::Span<const Output> outputs() const override { return outputs_; }

  absl::Status FirstRun(Call& call,
                        absl::Span<const OutputRule> rules) override {
    return host_.first_run(host_.context, recording_, call.caller,
                           RulesOf(rules),
                           static_cast<int32_t>(rules.size())) == 0
               ? absl::OkStatus()
               : Failed("first_run");
  }

  absl::Status Replay(Call& call, absl::Span<const OutputRule> rules,
                      absl::Span<Storage> storages) override {
    return host_.replay(host_.context, recording_, call.caller, RulesOf(rules),
                        storages.data(),
                        static_cast<int32_t>(rules.size())) == 0
               ? absl::OkStatus()
               : Failed("replay");
  }

  Tensor cached(int output) const override {
    return host_.cached(host_.context, recording_, output);
  }
  void DropCached(int output) override {
    host_.drop_cached(host_.context, recording_, output);
  }

 private:
  const KilnGraphRule* RulesOf(absl::Span<const OutputRule> rules) {
    rules_.resize(rules.size());
    for (size_t i = 0; i < rules.size(); ++i) {
      rules_[i] = {static_cast<int32_t>(rules[i].kind), rules[i].index,
                   rules[i].storage};
    }
    return rules_.data();
  }

  const KilnGraphHost& host_;
  void* recording_ = nullptr;
  std::vector<Output> outputs_;
  std::vector<KilnGraphRule> rules_;
};

static_assert(static_cast<int>(OutputRule::Kind::kCached) ==
                  KILN_GRAPH_CACHED &&
              static_cast<int>(OutputRule::Kind::kOfStorage) ==
                  KILN_GRAPH_OF_STORAGE);

}  // namespace

absl::StatusOr<std::unique_ptr<PoolState>> CGraphHost::Checkpoint() {
  void* const checkpoint = host_.checkpoint(host_.context);
  if (checkpoint == nullptr) return Failed("checkpoint");
  auto state = std::make_unique<HostPoolState>(host_);
  state->checkpoint = checkpoint;
  return state;
}

absl::Status CGraphHost::Restore(const PoolState& state,
                                 absl::Span<const Storage> live) {
  return host_.restore(host_.context,
                       static_cast<const HostPoolState&>(state).checkpoint,
                       live.data(), static_cast<int32_t>(live.size())) == 0
             ? absl::OkStatus()
             : Failed("restore");
}

absl::Status CGraphHost::Free(const void* address) {
  return host_.free_block(host_.context, address) == 0 ? absl::OkStatus()
                                                       : Failed("free_block");
}

bool CGraphHost::TakeAnother() {
  return host_.take_another_pool != nullptr &&
         host_.take_another_pool(host_.context) != 0;
}

absl::StatusOr<std::vector<const void*>> CGraphHost::AllocatedBlocks() {
  std::vector<const void*> found;
  const auto tell = [](void* blocks, const void* address) {
    static_cast<std::vector<const void*>*>(blocks)->push_back(address);
  };
  if (host_.tell_blocks(host_.context, tell, &found) != 0) {
    return Failed("tell_blocks");
  }
  return found;
}

std::string CGraphHost::OriginOf(absl::Span<const void* const> blocks) {
  std::string text;
  if (host_.tell_origin == nullptr) return text;
  const auto tell = [](void* to, const char* part) {
    absl::StrAppend(static_cast<std::string*>(to), part);
  };
  host_.tell_origin(host_.context, blocks.data(),
                    static_cast<int32_t>(blocks.size()), tell, &text);
  return text;
}

void CGraphHost::Watch(Storage storage) { host_.watch(host_.context, storage); }

void CGraphHost::Unwatch(Storage storage) {
  host_.unwatch(host_.context, storage);
}

bool CGraphHost::IsLive(Storage storage, Tensor cached) const {
  return host_.is_live(host_.context, storage, cached) != 0;
}

void CGraphHost::Invalidate(Storage storage, absl::string_view text) {
  host_.invalidate(host_.context, storage, std::string(text).c_str());
}

absl::Status CGraphHost::ChangeThread() {
  return host_.change_thread == nullptr ||
                 host_.change_thread(host_.context) == 0
             ? absl::OkStatus()
             : Failed("change_thread");
}

absl::Status CGraphHost::KeepGradients(Call& call,
                                       absl::Span<const Storage> storages) {
  if (host_.keep_gradients == nullptr) return absl::OkStatus();
  std::vector<KilnGraphInput> inputs = InputsOf(call);
  if (host_.keep_gradients(host_.context, call.caller, storages.data(),
                           static_cast<int32_t>(storages.size()), inputs.data(),
                           static_cast<int32_t>(inputs.size())) != 0) {
    return Failed("keep_gradients");
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    call.inputs[i].address = inputs[i].address;
  }
  return absl::OkStatus();
}

absl::Status CGraphHost::RunPlainly(const Function& function, Call& call) {
  return host_.run_plainly(host_.context, function.body, call.caller) == 0
             ? absl::OkStatus()
             : Failed("run_plainly");
}

absl::StatusOr<std::vector<Output>> CGraphHost::WarmUp(const Function& function,
                                                       Call& call) {
  std::vector<Output> outputs;
  if (host_.warm_up(host_.context, function.body, call.caller, &TellOutput,
                    &outputs) != 0) {
    return Failed("warm_up");
  }
  return outputs;
}

absl::StatusOr<std::unique_ptr<graph_tree::Recording>> CGraphHost::Record(
    const Function& function, Call& call, absl::Span<const InputUse> uses) {
  auto recording = std::make_unique<HostRecording>(host_);
  RETURN_IF_ERROR(recording->Capture(function, call, uses));
  return recording;
}

absl::Status CGraphHost::FindStorages(Call& call) {
  std::vector<KilnGraphInput> found = InputsOf(call);
  if (host_.find_storages(host_.context, call.caller, found.data(),
                          static_cast<int32_t>(found.size())) != 0) {
    return Failed("find_storages");
  }
  for (size_t i = 0; i < found.size(); ++i) {
    call.inputs[i].storage = found[i].storage;
    call.inputs[i].storage_address = found[i].storage_address;
  }
  return absl::OkStatus();
}

void CGraphHost::DropInput(Call& call, int input) {
  host_.drop_input(host_.context, call.caller, input);
}

}  // namespace kiln
