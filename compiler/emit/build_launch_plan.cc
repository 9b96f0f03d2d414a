#include "compiler/emit/build_launch_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "compiler/emit/sym_to_wire.h"
#include "compiler/schedule/kernel_labels.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Without a temporary: nearly all expressions are numbers.
void Write(const SymExpr& e, wire::SymExpr& out) {
  if (e.is_constant()) {
    out.set_value(e.constant());
  } else {
    out = ToWire(e);
  }
}

template <typename Field>
void AddAll(const DimVector& from, Field* to) {
  to->Reserve(to->size() + static_cast<int>(from.size()));
  for (const SymExpr& e : from) Write(e, *to->Add());
}

wire::TensorMeta ToWire(const TensorMeta& meta) {
  wire::TensorMeta out;
  out.set_dtype(ToWire(meta.dtype));
  AddAll(meta.sizes, out.mutable_sizes());
  AddAll(meta.strides, out.mutable_strides());
  Write(meta.offset, *out.mutable_storage_offset());
  return out;
}

class PlanBuilder {
 public:
  PlanBuilder(const Graph& graph, const KernelPlan& plan,
              absl::Span<const EmittedKernel> kernels,
              absl::Span<const UnitSource> units)
      : graph_(graph), plan_(plan), kernels_(kernels) {
    buffer_numbers_.assign(plan.buffers.size(), kUnnumbered);
    for (uint32_t u = 0; u < units.size(); ++u) {
      for (const std::string& symbol : units[u].symbols)
        unit_of_.emplace(symbol, u);
    }
  }

  absl::StatusOr<wire::LaunchPlan> Build() {
    AddSymbols();
    AddInputs();
    NumberTakenInputs();
    size_t next_kernel = 0;
    for (const PlannedStep& step : plan_.steps) {
      if (IsLaunch(step)) {
        if (next_kernel >= kernels_.size()) return CountsDiffer();
        RETURN_IF_ERROR(AddLaunch(step, kernels_[next_kernel++]));
      } else if (const auto* call = std::get_if<LibraryCall>(&step)) {
        AddExtern(*call);
      } else {
        AddFill(std::get<Fill>(step));
      }
    }
    if (next_kernel != kernels_.size()) return CountsDiffer();
    for (const ProgramOutput& output : plan_.outputs) AddOutput(output);
    *out_.mutable_arena_bytes() = kiln::ToWire(plan_.arena_bytes);
    out_.set_peak_live_bytes(plan_.peak_live_bytes);
    return std::move(out_);
  }

 private:
  static constexpr uint32_t kUnnumbered = ~0u;

  absl::Status CountsDiffer() const {
    return absl::InternalError(
        absl::StrCat("plan ", plan_.name, ": ", kernels_.size(),
                     " kernel sources, which is not one a planned kernel"));
  }

  void AddSymbols() {
    const std::vector<SymbolFacts>& symbols = graph_.shapes.symbols;
    for (size_t i = 0; i < symbols.size(); ++i) {
      wire::PlanSymbol& symbol = *out_.add_symbols();
      symbol.set_name(absl::StrCat("s", i));
      // What guards narrowed it by is a guard's to say: inputs outside of a
      // declared range have no artifact, those that break a guard have another.
      const ValueRange declared =
          graph_.shapes.DeclaredRange(static_cast<uint32_t>(i));
      symbol.set_min(declared.min);
      symbol.set_max(declared.max);
      wire::SymbolSource& source = *symbol.mutable_source();
      source.set_kind(static_cast<wire::SymbolSource::Kind>(
          static_cast<int>(symbols[i].source.kind) + 1));
      source.set_input(symbols[i].source.input);
      source.set_dim(symbols[i].source.dim);
    }
  }

  void AddInputs() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      wire::PlanInput& input = *out_.add_inputs();
      if (const auto* value = std::get_if<ValueId>(&graph_.inputs[i].what)) {
        *input.mutable_tensor() = ToWire(graph_.meta(*value));
        input.set_alignment_bytes(graph_.inputs[i].alignment_bytes);
      } else {
        *input.mutable_scalar() =
            kiln::ToWire(std::get<SymExpr>(graph_.inputs[i].what));
      }
      input.set_mutated(std::find(plan_.mutated_inputs.begin(),
                                  plan_.mutated_inputs.end(),
                                  i) != plan_.mutated_inputs.end());
    }
  }

  // First: what takes an input's place is that input on the wire.
  void NumberTakenInputs() {
    for (BufferId b = 0; b < plan_.buffers.size(); ++b)
      if (plan_.buffers[b].kind == BufferKind::kInput &&
          plan_.placements[b].own >= 0)
        Number(b);
  }

  // The wire number of a buffer; the first to ask gives it one.
  uint32_t Number(BufferId id) {
    if (buffer_numbers_[id] != kUnnumbered) return buffer_numbers_[id];
    const Buffer& buffer = plan_.buffers[id];
    const int own = plan_.placements[id].own;
    if (own >= 0) {
      const auto [at, added] = own_numbers_.emplace(own, out_.buffers_size());
      if (!added) return buffer_numbers_[id] = at->second;
    }
    wire::PlanBuffer& out = *out_.add_buffers();
    out.set_name(buffer.name);
    out.set_index(buffer.index);
    const SymExpr elements = SpanElements(buffer.sizes, buffer.strides);
    Write((elements.is_constant() ? elements : Max(elements, 0)) *
              SizeInBytes(buffer.dtype),
          *out.mutable_bytes());
    if (!buffer.written_sizes.empty()) SetWritten(buffer, out);
    switch (buffer.kind) {
      case BufferKind::kInput:
        out.set_kind(wire::PlanBuffer::KIND_INPUT);
        break;
      case BufferKind::kConstant:
        out.set_kind(wire::PlanBuffer::KIND_CONSTANT);
        break;
      case BufferKind::kOutput:
        out.set_kind(wire::PlanBuffer::KIND_OUTPUT);
        break;
      case BufferKind::kCounters:
        out.set_kind(wire::PlanBuffer::KIND_COUNTERS);
        break;
      case BufferKind::kTemporary:
        out.set_kind(own >= 0 ? wire::PlanBuffer::KIND_OWN
                              : wire::PlanBuffer::KIND_ARENA);
        if (own < 0) {
          *out.mutable_offset() =
              kiln::ToWire(plan_.placements[id].offset_bytes);
        }
        *out.mutable_bytes() = kiln::ToWire(plan_.placements[id].bytes);
        break;
    }
    return buffer_numbers_[id] = out_.buffers_size() - 1;
  }

  // Of inputs and results as the client has them: the axes of a kernel's
  // buffers are merged.
  const DimVector& ShapeOf(BufferId id) const {
    const Buffer& buffer = plan_.buffers[id];
    if (buffer.kind == BufferKind::kInput) {
      const auto& what = graph_.inputs[buffer.index].what;
      if (const auto* v = std::get_if<ValueId>(&what)) {
        return graph_.meta(*v).sizes;
      }
    }
    if (buffer.kind != BufferKind::kOutput) return buffer.sizes;
    for (const ProgramOutput& output : plan_.outputs) {
      const auto* view = std::get_if<View>(&output.what);
      if (view == nullptr || view->buffer != id) continue;
      if (Product(view->sizes) == Product(buffer.sizes)) return view->sizes;
    }
    return buffer.sizes;
  }

  void SetWritten(const Buffer& buffer, wire::PlanBuffer& out) const {
    wire::BufferView& written = *out.mutable_written();
    written.set_buffer(static_cast<uint32_t>(out_.buffers_size() - 1));
    written.set_dtype(kiln::ToWire(buffer.dtype));
    for (const SymExpr& size : buffer.written_sizes)
      *written.add_sizes() = kiln::ToWire(size);
    for (const SymExpr& stride : buffer.written_strides)
      *written.add_strides() = kiln::ToWire(stride);
    *written.mutable_offset() = kiln::ToWire(SymExpr(0));
  }

  absl::StatusOr<uint32_t> KernelNumber(const PlannedStep& planned,
                                        const EmittedKernel& kernel) {
    const auto [at, added] =
        kernel_numbers_.emplace(kernel.source.symbol, out_.kernels_size());
    if (!added) return at->second;
    const auto unit = unit_of_.find(kernel.source.symbol);
    if (unit == unit_of_.end()) {
      return absl::InternalError(absl::StrCat("kernel ", kernel.source.symbol,
                                              ": no unit defines it"));
    }
    wire::PlanKernel& out = *out_.add_kernels();
    out.set_symbol(kernel.source.symbol);
    out.set_label(LabelOf(planned));
    out.set_module(unit->second);
    if (const auto* flash = std::get_if<FlashKernel>(&planned))
      out.add_origins(flash->attention.origin);
    absl::flat_hash_set<absl::string_view> seen;
    for (const PlannedKernel& part : KernelsOf(planned)) {
      for (const std::string& origin : part.nest.origins)
        if (seen.insert(origin).second) out.add_origins(origin);
    }
    out.set_text(kernel.facts.text);
    Write(kernel.facts.bytes_read, *out.mutable_bytes_read());
    Write(kernel.facts.bytes_written, *out.mutable_bytes_written());
    out.set_mapping(kernel.facts.mapping);
    for (const SymExpr& extent : kernel.facts.extents) {
      *out.add_extents() = kiln::ToWire(extent);
    }
    return at->second;
  }

  absl::Status AddLaunch(const PlannedStep& planned,
                         const EmittedKernel& kernel) {
    ASSIGN_OR_RETURN(const uint32_t number, KernelNumber(planned, kernel));
    wire::LaunchStep& launch = *out_.add_steps()->mutable_launch();
    launch.set_kernel(number);
    for (const KernelParam& param : kernel.source.params) {
      wire::KernelArg& arg = *launch.add_args();
      switch (param.kind) {
        case KernelParam::Kind::kBuffer: {
          const Buffer& buffer = plan_.buffers[param.buffer];
          wire::BufferArg& out = *arg.mutable_buffer();
          out.set_buffer(Number(param.buffer));
          Write(buffer.offset * SizeInBytes(buffer.dtype),
                *out.mutable_offset_bytes());
          out.set_dtype(ToWire(buffer.dtype));
          AddAll(ShapeOf(param.buffer), out.mutable_sizes());
          break;
        }
        case KernelParam::Kind::kScalar:
          *arg.mutable_scalar() = kiln::ToWire(param.scalar);
          break;
        case KernelParam::Kind::kSeed:
          arg.mutable_seed();
          break;
        case KernelParam::Kind::kSeedSlot:
          arg.mutable_seed_slot();
          break;
      }
    }
    // A CPU kernel deals out its own work: one call.
    for (size_t d = 0; d < 3; ++d) {
      const std::vector<SymExpr>& grid = kernel.source.grid;
      *launch.add_grid() = kiln::ToWire(d < grid.size() ? grid[d] : SymExpr(1));
    }
    for (const uint32_t extent : kernel.source.block) launch.add_block(extent);
    launch.set_shared_bytes(kernel.source.shared_bytes);
    launch.set_blocks_per_multiprocessor(
        kernel.source.blocks_per_multiprocessor);
    launch.set_programmatic_dependent_launch(
        kernel.source.waits_for_work_before);
    const std::vector<uint32_t> nodes = ClientNodesOf(planned);
    launch.mutable_client_nodes()->Assign(nodes.begin(), nodes.end());
    return absl::OkStatus();
  }

  wire::BufferView ToWireView(const View& view) {
    wire::BufferView out;
    out.set_buffer(Number(view.buffer));
    out.set_dtype(ToWire(view.dtype));
    AddAll(view.sizes, out.mutable_sizes());
    AddAll(view.strides, out.mutable_strides());
    Write(view.offset + plan_.buffers[view.buffer].offset,
          *out.mutable_offset());
    return out;
  }

  void AddExtern(const LibraryCall& call) {
    wire::ExternStep& out = *out_.add_steps()->mutable_extern_call();
    out.set_name(call.name);
    out.mutable_client_nodes()->Assign(call.client_nodes.begin(),
                                       call.client_nodes.end());
    for (const View& view : call.inputs) *out.add_inputs() = ToWireView(view);
    for (const View& view : call.outputs) *out.add_outputs() = ToWireView(view);
    for (const Attribute& attribute : call.attributes) {
      wire::Attribute& to = *out.add_attributes();
      to.set_name(attribute.name);
      if (const auto* i = std::get_if<int64_t>(&attribute.value)) {
        to.set_int_value(*i);
      } else if (const auto* f = std::get_if<double>(&attribute.value)) {
        to.set_float_value(*f);
      } else if (const auto* s = std::get_if<std::string>(&attribute.value)) {
        to.set_string_value(*s);
      } else {
        wire::IntList& list = *to.mutable_ints();
        for (const SymExpr& e :
             std::get<std::vector<SymExpr>>(attribute.value)) {
          *list.add_values() = kiln::ToWire(e);
        }
      }
    }
  }

  void AddFill(const Fill& fill) {
    const Buffer& buffer = plan_.buffers[fill.buffer];
    wire::FillStep& out = *out_.add_steps()->mutable_fill();
    *out.mutable_to() = ToWireView(
        {fill.buffer, buffer.dtype, buffer.sizes, buffer.strides, 0});
    out.set_bits(ElementBits(buffer.dtype, fill.value));
  }

  void AddOutput(const ProgramOutput& output) {
    wire::PlanOutput& out = *out_.add_outputs();
    if (const auto* view = std::get_if<View>(&output.what)) {
      *out.mutable_view() = ToWireView(*view);
    } else if (const auto* sym = std::get_if<SymExpr>(&output.what)) {
      *out.mutable_sym() = kiln::ToWire(*sym);
    } else {
      out.mutable_none();
    }
  }

  const Graph& graph_;
  const KernelPlan& plan_;
  const absl::Span<const EmittedKernel> kernels_;
  absl::flat_hash_map<std::string, uint32_t> unit_of_;
  absl::flat_hash_map<std::string, uint32_t> kernel_numbers_;
  std::vector<uint32_t> buffer_numbers_;
  // Buffers that share memory of their own are one on the wire.
  absl::flat_hash_map<int, uint32_t> own_numbers_;
  wire::LaunchPlan out_;
};

}  // namespace

absl::StatusOr<wire::LaunchPlan> BuildLaunchPlan(
    const Graph& graph, const KernelPlan& plan,
    absl::Span<const EmittedKernel> kernels,
    absl::Span<const UnitSource> units) {
  return PlanBuilder(graph, plan, kernels, units).Build();
}

}  // namespace kiln
