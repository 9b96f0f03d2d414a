#include "compiler/loop/contraction_verifier.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

class ContractionVerifier {
 public:
  ContractionVerifier(const Contraction& contraction,
                      const std::vector<Buffer>& buffers)
      : c_(contraction), buffers_(buffers) {}

  absl::Status Verify() {
    std::string due;
    if (!HasKnownAxes(c_, due)) {
      return Broken("C1", absl::StrCat("found ", c_.extents.size(),
                                       " axes, expected ", due));
    }
    written_axes_.assign(c_.extents.size(), false);
    for (size_t place = 0; place < c_.operands.size(); ++place) {
      RETURN_IF_ERROR(VerifyOperand(place));
    }
    from_.assign(c_.body.size(), From::kNothing);
    for (ScalarId id = 0; id < c_.body.size(); ++id) {
      RETURN_IF_ERROR(VerifyNode(id));
    }
    if (num_factors_ != 2 || num_sums_ != 1) {
      return Broken(
          "C3", absl::StrCat("found ", num_factors_, " factors and ", num_sums_,
                             " sums, expected two and one"));
    }
    return VerifyValue();
  }

 private:
  // What a node depends on.
  enum class From { kNothing, kFactor, kSum };

  absl::Status Broken(absl::string_view rule, absl::string_view what) const {
    return absl::InternalError(absl::StrCat(rule, " at ", FormName(c_.form),
                                            " ", absl::StrJoin(c_.origins, "+"),
                                            ": ", what));
  }

  absl::Status VerifyOperand(size_t place) {
    const ContractionOperand& operand = c_.operands[place];
    const View& view = operand.view;
    const absl::string_view name = OperandName(place);
    if (view.buffer >= buffers_.size()) {
      return Broken("C2", absl::StrCat(name, ": no buffer ", view.buffer));
    }
    if (view.sizes.size() != view.strides.size() ||
        view.sizes.size() != operand.index.size()) {
      return Broken("C2",
                    absl::StrCat(name, ": found ", view.strides.size(),
                                 " strides and ", operand.index.size(),
                                 " indices, expected ", view.sizes.size()));
    }
    absl::Status status;
    for (const SymExpr& e : operand.index) {
      Var var;
      const bool own = e.AsVar(&var) && var.kind == Var::Kind::kAxis;
      if (c_.form == Contraction::Form::kProduct && !own)
        return Broken("C2", absl::StrCat(name, ": index ", e.ToString()));
      e.VisitVars([&](Var v) {
        if (v.kind == Var::Kind::kIndirect ||
            (v.kind == Var::Kind::kAxis && v.index >= c_.extents.size())) {
          status = Broken("C2", absl::StrCat(name, ": index ", e.ToString()));
        } else if (v.kind == Var::Kind::kAxis && place == c_.written) {
          written_axes_[v.index] = true;
        }
      });
    }
    return status;
  }

  absl::Status VerifyNode(ScalarId id) {
    const ScalarNode& node = c_.body[id];
    const std::string name = absl::StrCat("t", id);
    for (const ScalarId arg : node.args) {
      if (arg >= id) return Broken("C3", absl::StrCat(name, " reads t", arg));
      if (from_[arg] == From::kNothing) continue;
      if (from_[id] != From::kNothing && from_[id] != from_[arg])
        return Broken("C4", absl::StrCat(name, " reads a factor and the sum"));
      from_[id] = from_[arg];
    }
    switch (node.op) {
      case ScalarOp::kFactor:
        return VerifyFactor(id);
      case ScalarOp::kContract:
        if (node.args.size() != 2 || from_[node.args[0]] != From::kFactor ||
            from_[node.args[1]] != From::kFactor) {
          return Broken("C3", absl::StrCat(name, " is no sum of two factors"));
        }
        ++num_sums_;
        from_[id] = From::kSum;
        return absl::OkStatus();
      case ScalarOp::kLoad:
        return VerifyLoad(id);
      default:
        if (IsReduction(node.op) || IsIndexCheck(node.op))
          return Broken("C3", absl::StrCat(name, ": ", ScalarOpName(node.op)));
        return absl::OkStatus();
    }
  }

  absl::Status VerifyFactor(ScalarId id) {
    const ScalarNode& node = c_.body[id];
    ++num_factors_;
    from_[id] = From::kFactor;
    if (node.number.i != 0 && node.number.i != 1) {
      return Broken("C3", absl::StrCat("t", id, ": factor ", node.number.i));
    }
    const DType due = c_.factor(static_cast<int>(node.number.i)).view.dtype;
    if (node.dtype == due) return absl::OkStatus();
    return Broken("C3", absl::StrCat("t", id, ": found ", ShortName(node.dtype),
                                     ", expected ", ShortName(due)));
  }

  absl::Status VerifyLoad(ScalarId id) {
    const ScalarNode& node = c_.body[id];
    const std::string name = absl::StrCat("t", id);
    if (node.buffer >= buffers_.size())
      return Broken("C4", absl::StrCat(name, ": no buffer ", node.buffer));
    const Buffer& buffer = buffers_[node.buffer];
    if (node.dtype != buffer.dtype || node.index.size() != buffer.sizes.size())
      return Broken("C4", absl::StrCat(name, " loads ", buffer.name, ": found ",
                                       ShortName(node.dtype), " at ",
                                       node.index.size(), " indices"));
    absl::Status status;
    for (const SymExpr& e : node.index) {
      e.VisitVars([&](Var v) {
        if (v.kind == Var::Kind::kSymbol) return;
        if (v.kind == Var::Kind::kIndirect || v.index >= c_.extents.size() ||
            !written_axes_[v.index]) {
          status = Broken("C4", absl::StrCat(name, " loads at ", e.ToString()));
        }
      });
    }
    return status;
  }

  absl::Status VerifyValue() const {
    const DType due = c_.result().view.dtype;
    if (c_.value < c_.body.size() && from_[c_.value] == From::kSum &&
        c_.body[c_.value].dtype == due) {
      return absl::OkStatus();
    }
    return Broken("C5", absl::StrCat("t", c_.value, " is no ", ShortName(due),
                                     " that comes from the sum"));
  }

  const Contraction& c_;
  const std::vector<Buffer>& buffers_;
  std::vector<bool> written_axes_;
  std::vector<From> from_;  // of each node
  int num_factors_ = 0;
  int num_sums_ = 0;
};

}  // namespace

absl::Status VerifyContraction(const Contraction& contraction,
                               const std::vector<Buffer>& buffers) {
  return ContractionVerifier(contraction, buffers).Verify();
}

}  // namespace kiln
