#include "client/c_api/kiln.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/fixed_array.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/c_api/c_graph.h"
#include "client/c_api/c_handles.h"
#include "client/c_api/c_launch.h"
#include "client/c_api/c_status.h"
#include "client/session.h"
#include "proto/base/status.h"
#include "proto/key/graph_limits.h"
#include "runtime/executor.h"
#include "runtime/input_view.h"
#include "runtime/memory_events.h"

struct KilnResults {
  std::vector<kiln::OutputValue> values;
};

struct KilnMemory {
  std::shared_ptr<void> owner;
  const void* block = nullptr;
};

namespace kiln {
namespace {

// One value of a run. The graph's own demands on it are the executor's to make.
absl::Status CheckValue(const KilnValue& value) {
  RETURN_IF_ERROR(
      CheckRange("kind", NumberOf(value.kind), KILN_TENSOR, KILN_INTEGER));
  if (value.kind == KILN_INTEGER) return absl::OkStatus();
  RETURN_IF_ERROR(
      CheckRange("dtype", NumberOf(value.dtype), KILN_BOOL, KILN_FLOAT64));
  RETURN_IF_ERROR(CheckRange("rank", value.rank, 0, kMaxTensorRank));
  RETURN_IF_ERROR(CheckArray("sizes", value.sizes, value.rank));
  RETURN_IF_ERROR(CheckArray("strides", value.strides, value.rank));
  for (int32_t d = 0; d < value.rank; ++d) {
    RETURN_IF_ERROR(CheckAtLeast("size", value.sizes[d], 0));
  }
  return absl::OkStatus();
}

// Whether CheckValue has nothing to say, at a tenth of its cost: a call may
// have hundreds of inputs, and microseconds.
bool IsSound(const KilnValue& value) {
  const int32_t kind = NumberOf(value.kind);
  if (kind == KILN_INTEGER) return true;
  const int32_t dtype = NumberOf(value.dtype);
  if (kind != KILN_TENSOR || dtype < KILN_BOOL || dtype > KILN_FLOAT64 ||
      value.rank < 0 || value.rank > kMaxTensorRank ||
      (value.rank > 0 &&
       (value.sizes == nullptr || value.strides == nullptr))) {
    return false;
  }
  int64_t negative = 0;
  for (int32_t d = 0; d < value.rank; ++d) negative |= value.sizes[d];
  return negative >= 0;
}

// What runs see of a value, which IsSound.
InputView ViewOf(const KilnValue& value) {
  if (value.kind == KILN_INTEGER) {
    InputView integer = {};
    integer.number = value.integer;
    return integer;
  }
  return {.is_tensor = true,
          .dtype = static_cast<DType>(value.dtype),
          .rank = value.rank,
          .data = value.data,
          .sizes = value.sizes,
          .strides = value.strides,
          .number = 0,
          .tensor = nullptr};
}

absl::Status CheckCount(const Callable& callable, const KilnValue* inputs,
                        int32_t count) {
  RETURN_IF_ERROR(CheckArray("inputs", inputs, count));
  const int64_t due = callable.num_inputs();
  return CheckRange("number of inputs", count, due, due);
}

// A view of each of `inputs`.
absl::Status SetViews(const KilnValue* inputs, absl::Span<InputView> views) {
  const KilnValue* input = inputs;
  for (InputView& view : views) {
    if (!IsSound(*input)) {
      return Annotate(CheckValue(*input),
                      absl::StrCat("input ", input - inputs));
    }
    view = ViewOf(*input++);
  }
  return absl::OkStatus();
}

// Memory that the caller of one run lends.
class LentAllocator : public Allocator {
 public:
  explicit LentAllocator(const KilnAllocator& lent) : lent_(lent) {}

  absl::StatusOr<void*> Allocate(int64_t bytes, Stream stream) override {
    void* memory = lent_.allocate(lent_.context, bytes, stream);
    if (memory != nullptr) return memory;
    return absl::ResourceExhaustedError(
        absl::StrCat("result: the caller has no ", bytes, " bytes"));
  }
  void Free(void* memory, int64_t bytes, Stream stream) override {
    lent_.release(lent_.context, memory, bytes, stream);
  }

 private:
  const KilnAllocator lent_;
};

// A caller that wants to know when inputs are his again.
static_assert(KILN_LEAST_INPUT_BYTES == kLeastInput);

class CallerObserver : public InputObserver {
 public:
  explicit CallerObserver(const KilnRunOptions& options) : options_(options) {}
  void Done(int32_t input) override {
    options_.on_input_done(options_.input_context, input);
  }

 private:
  const KilnRunOptions& options_;
};

// A caller that makes results himself.
class CallerMaker : public ResultMaker {
 public:
  explicit CallerMaker(const KilnRunOptions& options) : options_(options) {}
  void* Make(int32_t index, const ResultMeta& like) override {
    KilnValue value = {};
    value.kind = KILN_TENSOR;
    value.dtype = static_cast<KilnDType>(like.dtype);
    value.rank = static_cast<int32_t>(like.sizes.size());
    value.sizes = like.sizes.data();
    value.strides = like.strides.data();
    return options_.make_result(options_.result_context, index, &value);
  }

 private:
  const KilnRunOptions& options_;
};

// A tensor whose memory keeps `allocator` alive too, which takes it back.
void KeepAlive(const std::shared_ptr<LentAllocator>& allocator,
               OutputValue& value) {
  Tensor* tensor = std::get_if<Tensor>(&value);
  if (tensor == nullptr || tensor->owner == nullptr) return;
  struct Both {
    std::shared_ptr<LentAllocator> allocator;
    std::shared_ptr<void> owner;  // last: goes first
  };
  auto both = std::make_shared<Both>(Both{allocator, tensor->owner});
  tensor->owner = std::shared_ptr<void>(both, both->owner.get());
}

}  // namespace
}  // namespace kiln

uint32_t kiln_abi_version(void) { return KILN_ABI_VERSION; }

KilnStatus* kiln_compile(KilnSession* session, const KilnGraph* graph,
                         KilnCallable** callable) {
  return kiln_compile_with(session, graph, nullptr, 0, callable);
}

KilnStatus* kiln_compile_with(KilnSession* session, const KilnGraph* graph,
                              const void* options, size_t length,
                              KilnCallable** callable) {
  absl::Status sound = kiln::CheckGiven("session", session);
  if (sound.ok()) sound = kiln::CheckGiven("graph", graph);
  if (sound.ok()) {
    sound = kiln::CheckGiven("callable: pointer for the result", callable);
  }
  if (sound.ok()) sound = graph->mistake;
  if (!sound.ok()) return kiln::StatusOf(sound);
  kiln::wire::CompileOptions parsed;
  if (length > 0 && !parsed.ParseFromArray(options, static_cast<int>(length))) {
    return kiln::StatusOf(kiln::MakeError(
        kiln::ErrorReason::kBadOption, "options: no kiln.wire.CompileOptions"));
  }
  auto compiled = session->session->Compile(graph->graph, parsed);
  if (!compiled.ok()) return kiln::StatusOf(compiled.status());
  *callable = new KilnCallable{*std::move(compiled)};
  return nullptr;
}

KilnStatus* kiln_callable_static_inputs(KilnCallable* callable,
                                        const int32_t* inputs, int32_t count) {
  absl::Status sound = kiln::CheckGiven("callable", callable);
  if (sound.ok()) sound = kiln::CheckArray("inputs", inputs, count);
  if (sound.ok()) {
    sound = callable->callable->SetStaticInputs({inputs, inputs + count});
  }
  return kiln::StatusOf(sound);
}

void kiln_callable_free(KilnCallable* callable) { delete callable; }

KilnStatus* kiln_run(KilnCallable* callable, const KilnValue* inputs,
                     int32_t count, uint64_t seed, void* stream,
                     KilnResults** results) {
  KilnRunOptions options = {};
  options.struct_size = sizeof(options);
  options.seed = seed;
  options.stream = stream;
  return kiln_run_with(callable, inputs, count, &options, results);
}

KilnStatus* kiln_run_with(KilnCallable* callable, const KilnValue* inputs,
                          int32_t count, const KilnRunOptions* given,
                          KilnResults** results) {
  absl::Status sound = kiln::CheckStruct(
      "run options", given, offsetof(KilnRunOptions, on_input_done));
  if (sound.ok()) sound = kiln::CheckGiven("callable", callable);
  if (sound.ok())
    sound = kiln::CheckGiven("results: pointer for the results", results);
  if (!sound.ok()) return kiln::StatusOf(sound);
  sound = kiln::CheckCount(*callable->callable, inputs, count);
  if (!sound.ok()) return kiln::StatusOf(sound);
  // As many as most graphs have, without an allocation.
  absl::FixedArray<kiln::InputView, 32> views(count);
  sound = kiln::SetViews(inputs, absl::MakeSpan(views));
  if (!sound.ok()) return kiln::StatusOf(sound);
  KilnRunOptions known = {};
  std::memcpy(&known, given, std::min(sizeof(known), given->struct_size));
  kiln::RunOptions options;
  options.seed = known.seed;
  options.seed_slot = known.seed_slot;
  options.stream = known.stream;
  std::shared_ptr<kiln::LentAllocator> lent;
  if (known.allocator != nullptr) {
    lent = std::make_shared<kiln::LentAllocator>(*known.allocator);
    options.allocator = lent.get();
  }
  kiln::CallerObserver observer(known);
  if (known.on_input_done != nullptr) options.inputs = &observer;
  kiln::CallerMaker maker(known);
  if (known.make_result != nullptr) options.results = &maker;
  std::optional<kiln::CallerHooks> hooks;
  const kiln::CallableNodes nodes(*callable->callable);
  if (known.trace != nullptr) {
    options.trace = &known.trace->trace;
    options.nodes = &nodes;
  }
  if (known.on_launch != nullptr)
    options.launches = &hooks.emplace(known, *callable->callable);
  auto outputs = callable->callable->RunViews(views, options);
  if (!outputs.ok()) return kiln::StatusOf(outputs.status());
  if (lent != nullptr) {
    for (kiln::OutputValue& value : *outputs) kiln::KeepAlive(lent, value);
  }
  *results = new KilnResults{*std::move(outputs)};
  return nullptr;
}

int32_t kiln_results_count(const KilnResults* results) {
  return static_cast<int32_t>(results->values.size());
}

KilnValue kiln_results_get(const KilnResults* results, int32_t index) {
  KilnValue out = {};
  if (index < 0 || index >= kiln_results_count(results)) return out;
  const kiln::OutputValue& value = results->values[index];
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    out.kind = KILN_INTEGER;
    out.integer = *integer;
  } else if (const auto* tensor = std::get_if<kiln::Tensor>(&value)) {
    out.kind = KILN_TENSOR;
    out.dtype = static_cast<KilnDType>(tensor->dtype);
    out.rank = static_cast<int32_t>(tensor->sizes.size());
    out.data = tensor->data;
    out.sizes = tensor->sizes.data();
    out.strides = tensor->strides.data();
  }
  return out;
}

void kiln_results_free(KilnResults* results) { delete results; }

KilnMemory* kiln_results_share(const KilnResults* results, int32_t index) {
  if (index < 0 || index >= kiln_results_count(results)) return nullptr;
  const auto* tensor = std::get_if<kiln::Tensor>(&results->values[index]);
  if (tensor == nullptr || tensor->owner == nullptr) return nullptr;
  return new KilnMemory{tensor->owner, tensor->storage};
}
const void* kiln_memory_data(const KilnMemory* memory) {
  return memory == nullptr ? nullptr : memory->block;
}
void kiln_memory_free(KilnMemory* memory) { delete memory; }
