#include "compiler/schedule/nest_facts.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/config/target.h"
#include "compiler/sym/sym_simplify.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr int64_t kMax32 = (int64_t{1} << 31) - 1;

// Gathers the facts of one nest, node by node.
class Gatherer {
 public:
  Gatherer(const LoopNest& nest, const std::vector<Buffer>& buffers,
           const ShapeEnv& shapes)
      : nest_(nest), buffers_(buffers), shapes_(shapes) {
    facts_.buffer_param.assign(buffers.size(), -1);
  }

  absl::StatusOr<NestFacts> Run() {
    RETURN_IF_ERROR(Axes());
    facts_.axes.reserve(nest_.body.size());
    facts_.stage.reserve(nest_.body.size());
    facts_.load_offset.reserve(nest_.body.size());
    for (ScalarId id = 0; id < nest_.body.size(); ++id)
      RETURN_IF_ERROR(Node(id));
    for (const Store& store : nest_.stores) RETURN_IF_ERROR(OneStore(store));
    for (const SymExpr& extent : facts_.extents) NoteSymbols(extent);
    facts_.params = std::move(buffer_params_);
    for (uint32_t symbol : facts_.symbols)
      facts_.params.push_back(
          {KernelParam::Kind::kScalar, 0, SymExpr::Symbol(symbol)});
    // Streams are arguments, so that the layers of a model share a kernel.
    for (const ScalarNode& node : nest_.body)
      if (node.op == ScalarOp::kRandom)
        facts_.params.push_back(
            {KernelParam::Kind::kScalar, 0, SymExpr(node.number.i)});
    if (facts_.uses_seed)
      facts_.params.push_back({KernelParam::Kind::kSeed, 0, 0});
    facts_.index32 = fits32_;
    FindApproximate();
    return std::move(facts_);
  }

 private:
  absl::Status Axes() {
    facts_.num_axes = static_cast<uint32_t>(nest_.axes.size());
    if (facts_.num_axes > 64)
      return absl::InternalError("nest: more than 64 axes");
    SymExpr total = 1;
    for (uint32_t i = 0; i < facts_.num_axes; ++i) {
      const Axis& axis = nest_.axes[i];
      if (axis.reduction) facts_.reduced |= AxisBit(i);
      if (!axis.reduction && facts_.reduced != 0)
        return absl::InternalError("nest: a reduction axis before another");
      if (!axis.reduction) ++facts_.num_outer;
      facts_.extents.push_back(axis.extent);
      total = total * axis.extent;
    }
    fits32_ = fits32_ && IsBelow32(Range(total), total);
    return absl::OkStatus();
  }

  // By the range, or by guards on the greatest value.
  bool IsBelow32(const ValueRange& range, const SymExpr& greatest) const {
    return range.min >= -kMax32 &&
           (range.max <= kMax32 || shapes_.KnownLe(greatest, kMax32));
  }

  ValueRange Range(const SymExpr& e) const {
    return RangeWithin(e, {shapes_, facts_.extents});
  }

  // From the stores back to their operands.
  void FindApproximate() {
    std::vector<bool> exact(nest_.body.size(), false);
    const auto exact_index = [&](const DimVector& index) {
      for (const SymExpr& e : index) {
        if (e.is_constant()) continue;
        e.VisitVars([&](Var var) {
          if (var.kind == Var::Kind::kIndirect) exact[var.index] = true;
        });
      }
    };
    for (const Store& store : nest_.stores) {
      if (!IsHalf(buffers_[store.buffer].dtype)) exact[store.value] = true;
      if (store.mask != Store::kNoMask) exact[store.mask] = true;
      exact_index(store.index);
    }
    facts_.approximate.assign(nest_.body.size(), false);
    for (const ScalarNode& node : nest_.body) {
      if (node.op == ScalarOp::kRoundBFloat16 ||
          node.op == ScalarOp::kRoundFloat16) {
        return;
      }
    }
    for (ScalarId id = static_cast<ScalarId>(nest_.body.size()); id-- > 0;) {
      const ScalarNode& node = nest_.body[id];
      exact_index(node.index);
      // A comparison turns an error in the last place into another answer, and so does a
      // conversion to an integer. Rounding to a half type hides the error.
      const bool decides = node.dtype == DType::kBool || !IsFloat(node.dtype) ||
                           IsArgReduction(node.reduce);
      const bool rounds = node.op == ScalarOp::kCast && IsHalf(node.dtype);
      if (decides || (exact[id] && !rounds))
        for (ScalarId arg : node.args) exact[arg] = true;
      facts_.approximate[id] = node.dtype == DType::kFloat32 && !exact[id];
    }
  }

  void NoteSymbols(const SymExpr& e) {
    if (e.is_constant()) return;
    e.VisitVars([&](Var var) {
      if (var.kind != Var::Kind::kSymbol) return;
      auto& symbols = facts_.symbols;
      if (std::find(symbols.begin(), symbols.end(), var.index) == symbols.end())
        symbols.push_back(var.index);
    });
  }

  absl::Status Node(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    AxisSet axes = 0;
    uint16_t stage = 0;
    const auto depends = [&](ScalarId on) {
      if (on >= id) return false;
      axes |= facts_.axes[on];
      stage = std::max(stage, facts_.stage[on]);
      return true;
    };
    for (ScalarId arg : node.args)
      if (!depends(arg))
        return absl::InternalError(absl::StrCat("node ", id, " reads ", arg));
    bool sound = true;
    for (const SymExpr& index : node.index) {
      if (index.is_constant()) continue;
      NoteSymbols(index);
      index.VisitVars([&](Var var) {
        if (var.kind == Var::Kind::kAxis) axes |= AxisBit(var.index);
        if (var.kind == Var::Kind::kIndirect) sound &= depends(var.index);
      });
    }
    if (!sound)
      return absl::InternalError(absl::StrCat("node ", id, ": bad index"));

    SymExpr offset = 0;
    if (node.op == ScalarOp::kLoad) {
      ASSIGN_OR_RETURN(offset, Access(node.buffer, node.index));
    }
    if (node.op == ScalarOp::kReduce) {
      axes &= ~facts_.reduced;
      ++stage;
    }
    if (IsAlongRow(node.op)) {
      facts_.has_scan = true;
      axes |= AxisBit(facts_.num_axes - 1);
    }
    if (node.op == ScalarOp::kSeed) facts_.uses_seed = true;
    facts_.axes.push_back(axes);
    facts_.stage.push_back(stage);
    facts_.load_offset.push_back(std::move(offset));
    return absl::OkStatus();
  }

  absl::Status OneStore(const Store& store) {
    AxisSet axes = facts_.axes[store.value];
    uint16_t stage = facts_.stage[store.value];
    const auto depends = [&](ScalarId on) {
      axes |= facts_.axes[on];
      stage = std::max(stage, facts_.stage[on]);
    };
    if (store.mask != Store::kNoMask) depends(store.mask);
    for (const SymExpr& index : store.index) {
      if (index.is_constant()) continue;
      NoteSymbols(index);
      index.VisitVars([&](Var var) {
        if (var.kind == Var::Kind::kAxis) axes |= AxisBit(var.index);
        if (var.kind == Var::Kind::kIndirect) depends(var.index);
      });
    }
    ASSIGN_OR_RETURN(SymExpr offset, Access(store.buffer, store.index));
    facts_.has_atomic |= IsAtomic(store.mode);
    facts_.store_axes.push_back(axes);
    facts_.store_stage.push_back(stage);
    facts_.store_offset.push_back(std::move(offset));
    return absl::OkStatus();
  }

  // The element's distance from the base pointer. Notes the parameter.
  absl::StatusOr<SymExpr> Access(BufferId id, const DimVector& index) {
    if (id >= buffers_.size())
      return absl::InternalError(absl::StrCat("no buffer ", id));
    const Buffer& buffer = buffers_[id];
    if (index.size() != buffer.strides.size())
      return absl::InternalError(
          absl::StrCat(buffer.name, ": ", index.size(), " indices for ",
                       buffer.strides.size(), " dimensions"));
    if (facts_.buffer_param[id] < 0) {
      facts_.buffer_param[id] = static_cast<int>(buffer_params_.size());
      buffer_params_.push_back({KernelParam::Kind::kBuffer, id, 0});
    }
    SymExpr offset = buffer.offset;
    ValueRange reach = Range(buffer.offset);
    SymExpr last = buffer.offset;
    for (size_t d = 0; d < index.size(); ++d) {
      if (!index[d].Is(0) && !buffer.strides[d].Is(0))
        offset = offset + index[d] * buffer.strides[d];
      // An element that is accessed lies inside the buffer, whatever the range of a
      // loaded index is.
      const SymExpr distance = (buffer.sizes[d] - 1) * buffer.strides[d];
      const ValueRange far = Range(distance);
      last = last + distance;
      reach.min += std::min<int64_t>(far.min, 0);
      reach.max =
          std::min(reach.max + std::max<int64_t>(far.max, 0), ValueRange::kMax);
    }
    NoteSymbols(offset);
    fits32_ = fits32_ && IsBelow32(reach, last);
    return offset;
  }

  const LoopNest& nest_;
  const std::vector<Buffer>& buffers_;
  const ShapeEnv& shapes_;
  NestFacts facts_;
  std::vector<KernelParam> buffer_params_;
  bool fits32_ = true;
};

// Whether the variable changes along `axis`.
bool Moves(Var var, uint32_t axis, const NestFacts& facts) {
  switch (var.kind) {
    case Var::Kind::kSymbol:
      return false;
    case Var::Kind::kAxis:
      return var.index == axis;
    case Var::Kind::kIndirect:
      return (facts.axes[var.index] & AxisBit(axis)) != 0;
  }
  return false;
}

bool AtomMoves(const SymExpr::Atom& atom, uint32_t axis,
               const NestFacts& facts) {
  if (atom.is_var()) return Moves(atom.var, axis, facts);
  bool moves = false;
  const auto look = [&](Var var) { moves |= Moves(var, axis, facts); };
  atom.operands->first.VisitVars(look);
  atom.operands->second.VisitVars(look);
  return moves;
}

}  // namespace

absl::StatusOr<NestFacts> FactsOf(const LoopNest& nest,
                                  const std::vector<Buffer>& buffers,
                                  const ShapeEnv& shapes) {
  return Gatherer(nest, buffers, shapes).Run();
}

Motion MotionOf(const SymExpr& offset, uint32_t axis, const NestFacts& facts) {
  if (offset.is_constant()) return Motion::kStill;
  Motion motion = Motion::kStill;
  for (const SymExpr::Term& term : offset.sum().terms) {
    int moving = 0;
    bool plain = true;
    for (const SymExpr::Atom& atom : term.atoms) {
      if (!AtomMoves(atom, axis, facts)) continue;
      ++moving;
      plain &= atom.is_var() && atom.var.kind == Var::Kind::kAxis;
    }
    if (moving == 0) continue;
    if (moving > 1 || !plain) return Motion::kIrregular;
    const bool one = term.coefficient == 1 && term.atoms.size() == 1;
    motion = one && motion == Motion::kStill ? Motion::kContiguous
                                             : Motion::kStrided;
  }
  return motion;
}

bool RestIsMultiple(const SymExpr& offset, uint32_t axis, int64_t elements) {
  if (offset.is_constant()) return offset.constant() % elements == 0;
  for (const SymExpr::Term& term : offset.sum().terms) {
    const bool of_axis = term.atoms.size() == 1 && term.atoms[0].is_var() &&
                         term.atoms[0].var == Var{Var::Kind::kAxis, axis};
    if (!of_axis && term.coefficient % elements != 0) return false;
  }
  return true;
}

bool IsMultiple(const SymExpr& extent, int64_t elements) {
  if (extent.is_constant()) return extent.constant() % elements == 0;
  for (const SymExpr::Term& term : extent.sum().terms)
    if (term.coefficient % elements != 0) return false;
  return true;
}

bool DiffersByMultiple(const SymExpr& a, const SymExpr& b, int64_t elements) {
  return IsMultiple(a - b, elements);
}

namespace {

// Whether groups may be aligned by this rest: it names axes and symbols only, is never
// negative, and does not depend on the group.
bool MayAlignBy(const SymExpr& rest, uint32_t axis, const NestFacts& facts) {
  if (rest.is_constant()) return rest.constant() >= 0;
  bool plain = true;
  rest.VisitVars([&](Var var) {
    plain &= var.kind != Var::Kind::kIndirect && !Moves(var, axis, facts);
  });
  return plain;
}

}  // namespace

Vectors MakeVectors(const LoopNest& nest, const NestFacts& facts,
                    const std::vector<Buffer>& buffers, const ShapeEnv& shapes,
                    uint32_t axis, int width, bool peel) {
  Vectors vectors{axis, width, 0, false};
  if (axis == Vectors::kNoAxis || width == 1) return vectors;
  const SymExpr& extent = facts.extents[axis];
  if (peel) {
    // The rest that most bytes share, or the first of equals. Stores count twice, since a
    // part of a sector costs as much as the whole.
    struct Class {
      SymExpr rest;
      int64_t bytes = 0;
    };
    std::vector<Class> classes;
    const auto add = [&](BufferId id, const SymExpr& offset, AxisSet axes,
                         int weight) {
      if (MotionOf(offset, axis, facts) != Motion::kContiguous) return;
      const SymExpr rest = offset - SymExpr::Axis(axis);
      if (!MayAlignBy(rest, axis, facts)) return;
      int64_t bytes = weight * SizeInBytes(buffers[id].dtype);
      for (uint32_t a = 0; a < facts.num_axes; ++a) {
        if (axes & AxisBit(a))
          bytes *= std::max<int64_t>(1, shapes.Hint(facts.extents[a]));
      }
      for (Class& c : classes) {
        if (!DiffersByMultiple(c.rest, rest, width)) continue;
        c.bytes += bytes;
        return;
      }
      classes.push_back({rest, bytes});
    };
    for (ScalarId id = 0; id < nest.body.size(); ++id) {
      if (nest.body[id].op == ScalarOp::kLoad)
        add(nest.body[id].buffer, facts.load_offset[id], facts.axes[id], 1);
    }
    for (size_t s = 0; s < nest.stores.size(); ++s)
      add(nest.stores[s].buffer, facts.store_offset[s], facts.store_axes[s], 2);
    const Class* best = nullptr;
    for (const Class& c : classes)
      if (best == nullptr || c.bytes > best->bytes) best = &c;
    if (best != nullptr && !IsMultiple(best->rest, width))
      vectors.rest = best->rest;
  }
  vectors.cut = !IsMultiple(extent, width) || !IsMultiple(vectors.rest, width);
  return vectors;
}

bool IsWideAccess(const Buffer& buffer, const SymExpr& offset,
                  const Vectors& vectors, const NestFacts& facts) {
  const int64_t bytes =
      std::min(vectors.width * SizeInBytes(buffer.dtype), kMaxAccessBytes);
  if (vectors.axis == Vectors::kNoAxis ||
      MotionOf(offset, vectors.axis, facts) != Motion::kContiguous ||
      buffer.alignment_bytes % bytes != 0) {
    return false;
  }
  if (vectors.rest.Is(0))
    return RestIsMultiple(offset, vectors.axis, vectors.width);
  return DiffersByMultiple(offset - SymExpr::Axis(vectors.axis), vectors.rest,
                           vectors.width);
}

DType SortKeyType(const LoopNest& nest, const ScalarNode& sort) {
  const ScalarNode& value = nest.body[sort.args[0]];
  if (value.op != ScalarOp::kCast) return value.dtype;
  const DType from = nest.body[value.args[0]].dtype;
  return IsHalf(from) ? from : value.dtype;
}

SymExpr GroupsAlong(const Vectors& vectors, const NestFacts& facts) {
  const SymExpr& extent = facts.extents[vectors.axis];
  if (vectors.width == 1) return extent;
  // One more group if the first may be partial.
  const int64_t more =
      IsMultiple(vectors.rest, vectors.width) ? 0 : vectors.width - 1;
  return CeilDiv(extent + more, vectors.width);
}

}  // namespace kiln
