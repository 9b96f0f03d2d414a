#include "compiler/loop/loop_verifier.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/loop/attention_verifier.h"
#include "compiler/loop/contraction_verifier.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

absl::Status Broken(absl::string_view rule, absl::string_view where,
                    absl::string_view what) {
  return absl::InternalError(absl::StrCat(rule, " at ", where, ": ", what));
}

class NestVerifier {
 public:
  NestVerifier(const LoopNest& nest, const std::vector<Buffer>& buffers,
               const ShapeEnv& shapes)
      : nest_(nest),
        buffers_(buffers),
        shapes_(shapes),
        name_(absl::StrCat("nest ", absl::StrJoin(nest.origins, "+"))) {}

  absl::Status Verify() {
    RETURN_IF_ERROR(VerifyAxes());
    reduced_.assign(nest_.body.size(), false);
    for (ScalarId i = 0; i < nest_.body.size(); ++i) {
      RETURN_IF_ERROR(VerifyNode(i));
    }
    if (nest_.stores.empty()) return Broken("L6", name_, "no store");
    for (const Store& store : nest_.stores) RETURN_IF_ERROR(VerifyStore(store));
    return VerifyPlaces();
  }

 private:
  std::string At(ScalarId id) const { return absl::StrCat(name_, " t", id); }

  absl::Status VerifyAxes() {
    bool reduction = false;
    for (size_t k = 0; k < nest_.axes.size(); ++k) {
      if (reduction && !nest_.axes[k].reduction) {
        return Broken("L1", name_, absl::StrCat("i", k, " behind a reduction"));
      }
      reduction |= nest_.axes[k].reduction;
    }
    reduces_ = reduction;
    return absl::OkStatus();
  }

  // An index read by node `limit` (or by a store, behind all nodes).
  absl::Status VerifyIndex(const DimVector& index, ScalarId limit,
                           const std::string& where, bool& reduced) {
    absl::Status status;
    for (const SymExpr& e : index) {
      if (e.is_constant()) continue;
      e.VisitVars([&](Var v) {
        switch (v.kind) {
          case Var::Kind::kAxis:
            if (v.index >= nest_.axes.size()) {
              status = Broken("L3", where, absl::StrCat("no axis i", v.index));
            } else {
              reduced |= nest_.axes[v.index].reduction;
            }
            break;
          case Var::Kind::kIndirect:
            if (v.index >= limit) {
              status = Broken("L2", where, absl::StrCat("reads t", v.index));
            } else if (IsFloat(nest_.body[v.index].dtype)) {
              status = Broken("L4", where,
                              absl::StrCat("indexed by the float t", v.index));
            } else {
              reduced |= reduced_[v.index];
            }
            break;
          case Var::Kind::kSymbol:
            if (v.index >= shapes_.symbols.size()) {
              status =
                  Broken("L3", where, absl::StrCat("no symbol s", v.index));
            }
            break;
        }
      });
    }
    return status;
  }

  absl::Status VerifyAccess(BufferId buffer, const DimVector& index,
                            DType dtype, const std::string& where) {
    if (buffer >= buffers_.size()) {
      return Broken("L3", where, absl::StrCat("no buffer ", buffer));
    }
    if (index.size() != buffers_[buffer].sizes.size()) {
      return Broken("L3", where,
                    absl::StrCat("found ", index.size(), " indices of ",
                                 buffers_[buffer].name, ", expected ",
                                 buffers_[buffer].sizes.size()));
    }
    if (dtype != buffers_[buffer].dtype) {
      return Broken("L4", where,
                    absl::StrCat("found ", ShortName(dtype), ", expected ",
                                 ShortName(buffers_[buffer].dtype), " of ",
                                 buffers_[buffer].name));
    }
    return absl::OkStatus();
  }

  absl::Status VerifyNode(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    bool reduced = false;
    for (const ScalarId arg : node.args) {
      if (arg >= id) return Broken("L2", At(id), absl::StrCat("reads t", arg));
      reduced |= reduced_[arg];
    }
    RETURN_IF_ERROR(VerifyIndex(node.index, id, At(id), reduced));
    RETURN_IF_ERROR(VerifyTypes(id));
    switch (node.op) {
      case ScalarOp::kLoad:
        RETURN_IF_ERROR(
            VerifyAccess(node.buffer, node.index, node.dtype, At(id)));
        break;
      case ScalarOp::kReduce:
      case ScalarOp::kScan:
      case ScalarOp::kSort:
        if (!reduces_ || node.reduce == ReduceOp::kNone) {
          return Broken("L5", At(id), "a reduction of nothing");
        }
        reduced = node.op != ScalarOp::kReduce;
        break;
      case ScalarOp::kTally:
        if (!reduces_ || node.number.i < 1 || node.dtype != DType::kInt32 ||
            nest_.body[node.args[0]].dtype != DType::kInt32) {
          return Broken("L5", At(id),
                        absl::StrCat("a tally in ", ShortName(node.dtype),
                                     " of ", node.number.i, " values"));
        }
        reduced = true;
        break;
      case ScalarOp::kReduceResult:
        if (nest_.body[node.args[0]].op != ScalarOp::kReduce) {
          return Broken("L5", At(id), "a result of no reduction");
        }
        break;
      default:  // nothing special about the others
        break;
    }
    reduced_[id] = reduced;
    return absl::OkStatus();
  }

  absl::Status VerifyTypes(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    const auto bool_due = [&](size_t k) -> absl::Status {
      if (nest_.body[node.args[k]].dtype == DType::kBool) {
        return absl::OkStatus();
      }
      return Broken("L4", At(id), absl::StrCat("t", node.args[k], " no bool"));
    };
    if (IsHalf(node.dtype) && node.op != ScalarOp::kLoad &&
        node.op != ScalarOp::kCast && node.op != ScalarOp::kWhere) {
      return Broken(
          "L4", At(id),
          absl::StrCat(ScalarOpName(node.op), " in ", ShortName(node.dtype)));
    }
    if (IsComparison(node.op) && node.dtype != DType::kBool) {
      return Broken("L4", At(id), "a comparison that is no bool");
    }
    if (IsIndexCheck(node.op)) {
      for (size_t k = 0; k < node.args.size(); ++k) {
        if (k == 2) return bool_due(2);
        if (nest_.body[node.args[k]].dtype == DType::kInt64) continue;
        return Broken("L4", At(id), absl::StrCat("t", node.args[k], " no i64"));
      }
    }
    if (node.op == ScalarOp::kIndex && node.dtype != DType::kInt64 &&
        node.dtype != DType::kInt32) {
      return Broken("L4", At(id),
                    absl::StrCat("an index in ", ShortName(node.dtype)));
    }
    if (node.op == ScalarOp::kWhere) return bool_due(0);
    if (node.op == ScalarOp::kLoad && !node.args.empty()) return bool_due(0);
    return absl::OkStatus();
  }

  absl::Status VerifyStore(const Store& store) {
    const std::string where =
        store.buffer < buffers_.size()
            ? absl::StrCat(name_, " store of ", buffers_[store.buffer].name)
            : name_;
    if (store.value >= nest_.body.size() ||
        (store.mask != Store::kNoMask && store.mask >= nest_.body.size())) {
      return Broken("L2", where, "a value that is not there");
    }
    RETURN_IF_ERROR(VerifyAccess(store.buffer, store.index,
                                 nest_.body[store.value].dtype, where));
    if (store.mask != Store::kNoMask &&
        nest_.body[store.mask].dtype != DType::kBool) {
      return Broken("L4", where, "a mask that is no bool");
    }
    bool index_reduced = false;
    RETURN_IF_ERROR(VerifyIndex(store.index,
                                static_cast<ScalarId>(nest_.body.size()), where,
                                index_reduced));
    if (store.mode == StoreMode::kSum) return VerifySum(store, where);
    const DType dtype = buffers_[store.buffer].dtype;
    if (store.mode == StoreMode::kAtomicMax && dtype != DType::kInt32 &&
        dtype != DType::kInt64) {
      return Broken("L12", where, "a maximum that is no i32 or i64");
    }
    if (store.mode == StoreMode::kAtomicMul && SizeInBytes(dtype) < 4) {
      return Broken("L12", where,
                    absl::StrCat("a product in ", ShortName(dtype)));
    }
    if (!index_reduced && reduced_[store.value] &&
        store.mode == StoreMode::kSet && store.mask == Store::kNoMask) {
      return Broken("L7", where,
                    "one place for the values of all reduced points");
    }
    return absl::OkStatus();
  }

  absl::Status VerifySum(const Store& store, absl::string_view where) {
    const DType dtype = buffers_[store.buffer].dtype;
    if (dtype != DType::kFloat32 && dtype != DType::kFloat64) {
      return Broken("L11", where, "a sum that is no float32 or float64");
    }
    if (store.mask != Store::kNoMask) {
      return Broken("L11", where, "a sum with a mask");
    }
    if (store.stretch < 1) {
      return Broken("L11", where,
                    absl::StrCat("stretches of ", store.stretch, " points"));
    }
    return absl::OkStatus();
  }

  absl::Status VerifyPlaces() {
    for (const Store& store : nest_.stores) {
      if (IsAtomic(store.mode)) continue;
      for (ScalarId i = 0; i < nest_.body.size(); ++i) {
        const ScalarNode& node = nest_.body[i];
        if (node.op == ScalarOp::kLoad && node.buffer == store.buffer &&
            !(node.index == store.index)) {
          return Broken("L8", At(i),
                        absl::StrCat("reads ", buffers_[store.buffer].name,
                                     ", written elsewhere"));
        }
      }
    }
    return absl::OkStatus();
  }

  const LoopNest& nest_;
  const std::vector<Buffer>& buffers_;
  const ShapeEnv& shapes_;
  const std::string name_;
  bool reduces_ = false;
  std::vector<bool> reduced_;  // nodes that differ between reduced points
};

absl::Status VerifyView(const View& view, const LoopProgram& program,
                        absl::string_view where) {
  if (view.buffer >= program.buffers.size()) {
    return Broken("L9", where, absl::StrCat("no buffer ", view.buffer));
  }
  if (view.sizes.size() != view.strides.size()) {
    return Broken("L9", where,
                  absl::StrCat("found ", view.strides.size(),
                               " strides, expected ", view.sizes.size()));
  }
  return absl::OkStatus();
}

// L10, step by step.
class WrittenVerifier {
 public:
  explicit WrittenVerifier(const LoopProgram& program)
      : program_(program), written_(program.buffers.size()) {
    for (size_t b = 0; b < written_.size(); ++b) {
      const BufferKind kind = program.buffers[b].kind;
      written_[b] = kind == BufferKind::kInput || kind == BufferKind::kConstant;
    }
  }

  absl::Status Read(BufferId b, absl::string_view where) const {
    if (written_[b]) return absl::OkStatus();
    return Broken("L10", where,
                  absl::StrCat("reads ", program_.buffers[b].name,
                               ", which nothing wrote"));
  }

  absl::Status Step(const LoopNest& nest) {
    const std::string where =
        absl::StrCat("nest ", absl::StrJoin(nest.origins, "+"));
    for (const ScalarNode& node : nest.body) {
      if (node.op == ScalarOp::kLoad) RETURN_IF_ERROR(Read(node.buffer, where));
    }
    for (const Store& store : nest.stores) written_[store.buffer] = true;
    return absl::OkStatus();
  }
  absl::Status Step(const Contraction& c) {
    const std::string where = absl::StrJoin(c.origins, "+");
    absl::Status status;
    const auto read = [&](BufferId b) { status.Update(Read(b, where)); };
    VisitReads(
        c, [&](const View& view) { read(view.buffer); },
        [&](const ScalarNode& load) { read(load.buffer); });
    written_[c.result().view.buffer] = true;
    return status;
  }
  absl::Status Step(const Attention& a) {
    absl::Status status;
    VisitArrays(a, [&](const View& view, bool writes) {
      if (!writes) status.Update(Read(view.buffer, a.origin));
    });
    VisitArrays(a, [&](const View& view, bool writes) {
      if (writes) written_[view.buffer] = true;
    });
    return status;
  }
  absl::Status Step(const RowOrder& order) {
    for (const View* view : {&order.x, &order.values, &order.places})
      RETURN_IF_ERROR(VerifyView(*view, program_, order.origin));
    RETURN_IF_ERROR(Read(order.x.buffer, order.origin));
    written_[order.values.buffer] = written_[order.places.buffer] = true;
    return absl::OkStatus();
  }
  absl::Status Step(const Fill& fill) {
    written_[fill.buffer] = true;
    return absl::OkStatus();
  }

 private:
  const LoopProgram& program_;
  std::vector<bool> written_;
};

}  // namespace

absl::Status VerifyNest(const LoopNest& nest,
                        const std::vector<Buffer>& buffers,
                        const ShapeEnv& shapes) {
  return NestVerifier(nest, buffers, shapes).Verify();
}

absl::Status VerifyLoops(const LoopProgram& program) {
  WrittenVerifier written(program);
  for (const LoopStep& step : program.steps) {
    if (const auto* nest = std::get_if<LoopNest>(&step)) {
      RETURN_IF_ERROR(VerifyNest(*nest, program.buffers, program.shapes));
    } else if (const auto* sums = std::get_if<Contraction>(&step)) {
      RETURN_IF_ERROR(VerifyContraction(*sums, program.buffers));
    } else if (const auto* a = std::get_if<Attention>(&step)) {
      RETURN_IF_ERROR(VerifyAttention(*a, program.buffers));
    }
    RETURN_IF_ERROR(
        std::visit([&](const auto& s) { return written.Step(s); }, step));
  }
  for (const ProgramOutput& output : program.outputs) {
    if (const auto* view = std::get_if<View>(&output.what)) {
      RETURN_IF_ERROR(VerifyView(*view, program, "return"));
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln
