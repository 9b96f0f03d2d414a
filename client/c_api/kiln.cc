#include "client/c_api/kiln.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/graph_builder.h"
#include "client/session.h"
#include "proto/base/status.h"

// The C types are the C++ ones in a box.

struct KilnStatus {
  int code;
  std::string reason;
  std::string message;
};

struct KilnSession {
  std::shared_ptr<kiln::Session> session;
};

struct KilnGraph {
  kiln::wire::Graph graph;
  kiln::wire::DeviceType device = kiln::wire::DEVICE_TYPE_CPU;
  uint32_t next_value = 0;
  std::string mistake;  // the first one
};

struct KilnCallable {
  std::shared_ptr<kiln::Callable> callable;
};

struct KilnResults {
  std::vector<kiln::OutputValue> values;
};

struct KilnMemory {
  std::shared_ptr<void> owner;
};

namespace kiln {
namespace {

KilnStatus* StatusOf(const absl::Status& status) {
  if (status.ok()) return nullptr;
  const std::optional<ErrorReason> reason = ReasonOf(status);
  return new KilnStatus{
      static_cast<int>(status.code()),
      reason.has_value() ? std::string(ReasonName(*reason)) : "",
      std::string(status.message())};
}

KilnStatus* BadOption(absl::string_view message) {
  return StatusOf(MakeError(ErrorReason::kBadOption, message));
}

std::string Text(const char* text) { return text == nullptr ? "" : text; }

wire::SymExpr ExprOf(KilnSize size) {
  wire::SymExpr expr;
  if (size.symbol < 0) {
    expr.set_value(size.factor);
    return expr;
  }
  const auto add = [&expr](wire::SymOp op, int64_t value) {
    wire::SymInstruction* instruction = expr.add_code();
    instruction->set_op(op);
    instruction->set_value(value);
  };
  add(wire::SYM_OP_SYMBOL, size.symbol);
  if (size.factor != 1) {
    add(wire::SYM_OP_CONSTANT, size.factor);
    add(wire::SYM_OP_MUL, 0);
  }
  return expr;
}

void Mistake(KilnGraph& graph, std::string message) {
  if (graph.mistake.empty()) graph.mistake = std::move(message);
}

wire::TensorMeta MetaOf(KilnGraph& graph, const KilnSpec* spec) {
  wire::TensorMeta meta;
  if (spec == nullptr || (spec->rank > 0 && spec->sizes == nullptr)) {
    Mistake(graph, "a spec without sizes");
    return meta;
  }
  meta.set_dtype(static_cast<wire::DType>(spec->dtype));
  meta.set_device(graph.device);
  meta.mutable_storage_offset();
  SizeExpr step = 1;
  std::vector<SizeExpr> contiguous;
  for (int d = spec->rank - 1; d >= 0; --d) {
    contiguous.insert(contiguous.begin(), step);
    const SizeExpr size(ExprOf(spec->sizes[d]));
    // As PyTorch has it: a dimension of size 0 counts as 1.
    if (size.constant() != 0) step = step * size;
  }
  for (int d = 0; d < spec->rank; ++d) {
    *meta.add_sizes() = ExprOf(spec->sizes[d]);
    *meta.add_strides() = spec->strides == nullptr ? contiguous[d].wire()
                                                   : ExprOf(spec->strides[d]);
  }
  return meta;
}

wire::Argument ArgumentOf(KilnGraph& graph, const KilnArg& arg) {
  wire::Argument out;
  switch (arg.kind) {
    case KILN_ARG_NONE:
      out.mutable_none();
      return out;
    case KILN_ARG_VALUE:
      out.set_value(static_cast<uint32_t>(arg.integer));
      return out;
    case KILN_ARG_INTEGER:
      out.set_int_value(arg.integer);
      return out;
    case KILN_ARG_FLOAT:
      out.set_float_value(arg.floating);
      return out;
    case KILN_ARG_BOOL:
      out.set_bool_value(arg.integer != 0);
      return out;
    case KILN_ARG_SIZE:
      *out.mutable_sym() = ExprOf({arg.integer, arg.symbol});
      return out;
    case KILN_ARG_INTEGERS:
      out.mutable_list();
      for (int32_t i = 0; i < arg.count; ++i) {
        out.mutable_list()->add_items()->set_int_value(arg.integers[i]);
      }
      return out;
    case KILN_ARG_DTYPE:
      out.set_dtype(static_cast<wire::DType>(arg.integer));
      return out;
  }
  Mistake(graph, absl::StrCat("argument of kind ", static_cast<int>(arg.kind)));
  return out;
}

SessionOptions OptionsOf(const KilnSessionOptions& given) {
  SessionOptions options;
  options.daemon.socket = Text(given.socket);
  options.local_only = given.fallback == KILN_LOCAL_ONLY;
  if (given.fallback == KILN_FALLBACK_LOCAL_WORKER) {
    options.fallback = Fallback::kLocalWorker;
  }
  options.local_worker.program = Text(given.worker_program);
  options.local_worker.scratch_root =
      given.scratch_folder == nullptr ? "/tmp" : given.scratch_folder;
  options.device.kind =
      given.device == KILN_CUDA ? DeviceKind::kCuda : DeviceKind::kCpu;
  options.device.ordinal = given.ordinal;
  options.device.threads = given.threads;
  if (given.compile_deadline_ms > 0) {
    options.compile_deadline = absl::Milliseconds(given.compile_deadline_ms);
  }
  return options;
}

absl::StatusOr<InputValue> InputOf(const KilnValue& value, int index,
                                   const DeviceTraits& device) {
  if (value.kind == KILN_INTEGER) return InputValue(value.integer);
  const std::optional<DType> dtype =
      DTypeFromWire(static_cast<wire::DType>(value.dtype));
  if (value.kind != KILN_TENSOR || !dtype.has_value() || value.rank < 0 ||
      (value.rank > 0 &&
       (value.sizes == nullptr || value.strides == nullptr))) {
    return MakeError(ErrorReason::kGuardFailed,
                     absl::StrCat("input ", index,
                                  ": due a tensor with its sizes and strides, "
                                  "or an integer"));
  }
  Tensor tensor;
  tensor.data = value.data;
  tensor.dtype = *dtype;
  tensor.sizes.assign(value.sizes, value.sizes + value.rank);
  tensor.strides.assign(value.strides, value.strides + value.rank);
  tensor.device = device.kind;
  tensor.device_ordinal = device.ordinal;
  tensor.storage = value.data;
  return InputValue(std::move(tensor));
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

int kiln_status_code(const KilnStatus* status) { return status->code; }
const char* kiln_status_reason(const KilnStatus* status) {
  return status->reason.c_str();
}
const char* kiln_status_message(const KilnStatus* status) {
  return status->message.c_str();
}
void kiln_status_free(KilnStatus* status) { delete status; }

KilnStatus* kiln_session_open(const KilnSessionOptions* options,
                              KilnSession** session) {
  if (options == nullptr || options->struct_size < sizeof(KilnSessionOptions)) {
    return kiln::BadOption("session options: struct_size is not set");
  }
  auto opened = kiln::Session::Open(kiln::OptionsOf(*options));
  if (!opened.ok()) return kiln::StatusOf(opened.status());
  *session = new KilnSession{*std::move(opened)};
  return nullptr;
}
void kiln_session_close(KilnSession* session) { delete session; }

KilnGraph* kiln_graph_new(const char* name, KilnDevice device) {
  auto* graph = new KilnGraph;
  graph->graph.set_name(kiln::Text(name));
  if (device == KILN_CUDA) graph->device = kiln::wire::DEVICE_TYPE_CUDA;
  return graph;
}

KilnStatus* kiln_graph_parse(const void* bytes, size_t length,
                             KilnGraph** graph) {
  auto parsed = std::make_unique<KilnGraph>();
  if (!parsed->graph.ParseFromArray(bytes, static_cast<int>(length))) {
    return kiln::StatusOf(kiln::MakeError(kiln::ErrorReason::kMalformedGraph,
                                          "graph: not a kiln.wire.Graph"));
  }
  *graph = parsed.release();
  return nullptr;
}

void kiln_graph_free(KilnGraph* graph) { delete graph; }

int32_t kiln_graph_symbol(KilnGraph* graph, const char* name, int64_t hint) {
  kiln::wire::Symbol* symbol = graph->graph.add_symbols();
  symbol->set_name(kiln::Text(name));
  symbol->set_hint(hint);
  return graph->graph.symbols_size() - 1;
}

uint32_t kiln_graph_input(KilnGraph* graph, const char* name,
                          const KilnSpec* spec) {
  if (graph->graph.nodes_size() > 0) {
    kiln::Mistake(*graph, "an input after a node");
  }
  kiln::wire::Input* input = graph->graph.add_inputs();
  input->set_name(kiln::Text(name));
  *input->mutable_tensor() = kiln::MetaOf(*graph, spec);
  return graph->next_value++;
}

uint32_t kiln_graph_node(KilnGraph* graph, const char* op, const KilnArg* args,
                         int32_t count, const KilnSpec* result) {
  kiln::wire::Node* node = graph->graph.add_nodes();
  node->set_op(kiln::Text(op));
  for (int32_t i = 0; i < count; ++i) {
    *node->add_args() = kiln::ArgumentOf(*graph, args[i]);
  }
  *node->add_results() = kiln::MetaOf(*graph, result);
  return graph->next_value++;
}

void kiln_graph_output(KilnGraph* graph, uint32_t value) {
  graph->graph.add_outputs()->set_value(value);
}

KilnStatus* kiln_compile(KilnSession* session, const KilnGraph* graph,
                         KilnCallable** callable) {
  if (!graph->mistake.empty()) {
    return kiln::StatusOf(
        kiln::MakeError(kiln::ErrorReason::kMalformedGraph, graph->mistake));
  }
  auto compiled = session->session->Compile(graph->graph);
  if (!compiled.ok()) return kiln::StatusOf(compiled.status());
  *callable = new KilnCallable{*std::move(compiled)};
  return nullptr;
}

void kiln_callable_free(KilnCallable* callable) { delete callable; }

KilnStatus* kiln_run(KilnCallable* callable, const KilnValue* inputs,
                     int32_t count, uint64_t seed, void* stream,
                     KilnResults** results) {
  const KilnRunOptions options = {sizeof(KilnRunOptions), seed, stream,
                                  nullptr};
  return kiln_run_with(callable, inputs, count, &options, results);
}

KilnStatus* kiln_run_with(KilnCallable* callable, const KilnValue* inputs,
                          int32_t count, const KilnRunOptions* given,
                          KilnResults** results) {
  if (given == nullptr || given->struct_size < sizeof(KilnRunOptions)) {
    return kiln::BadOption("run options: struct_size is not set");
  }
  const kiln::DeviceTraits& device =
      callable->callable->executor()->artifact().device().traits();
  std::vector<kiln::InputValue> values;
  values.reserve(count);
  for (int32_t i = 0; i < count; ++i) {
    auto value = kiln::InputOf(inputs[i], i, device);
    if (!value.ok()) return kiln::StatusOf(value.status());
    values.push_back(*std::move(value));
  }
  kiln::RunOptions options;
  options.seed = given->seed;
  options.stream = given->stream;
  std::shared_ptr<kiln::LentAllocator> lent;
  if (given->allocator != nullptr) {
    lent = std::make_shared<kiln::LentAllocator>(*given->allocator);
    options.allocator = lent.get();
  }
  auto outputs = callable->callable->Run(values, options);
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
  const auto* tensor = std::get_if<kiln::Tensor>(&results->values[index]);
  if (tensor == nullptr || tensor->owner == nullptr) return nullptr;
  return new KilnMemory{tensor->owner};
}
void kiln_memory_free(KilnMemory* memory) { delete memory; }
