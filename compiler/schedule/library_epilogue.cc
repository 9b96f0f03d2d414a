#include "compiler/schedule/library_epilogue.h"

#include <utility>

#include "compiler/loop/body_builder.h"
#include "compiler/loop/index_expr.h"
#include "compiler/schedule/gelu_gradient.h"

namespace kiln {
namespace {

// relu(x), as LowerGraph writes it.
ScalarId Relu(BodyBuilder& body, ScalarId x) {
  return body.Op(ScalarOp::kMaximum, x, body.Int(body.dtype(x), 0));
}

// gelu(x, "tanh") as the graph passes leave it. Of two factors that are tensors, the one
// that is computed first comes first.
ScalarId GeluTanh(BodyBuilder& body, ScalarId x) {
  const DType type = body.dtype(x);
  const auto times = [&](ScalarId a, double b) {
    return body.Op(ScalarOp::kMul, a, body.Float(type, b));
  };
  const ScalarId cube =
      body.Op(ScalarOp::kMul, x, body.Op(ScalarOp::kMul, x, x));
  const ScalarId inner = body.Op(ScalarOp::kAdd, x, times(cube, 0.044715));
  const ScalarId tanh =
      body.Op(ScalarOp::kTanh, times(inner, 0.79788456080286535588));
  return body.Op(ScalarOp::kMul,
                 body.Op(ScalarOp::kAdd, tanh, body.Float(type, 1)),
                 times(x, 0.5));
}

struct Activation {
  absl::string_view name;
  ScalarOp last;  // that `write` adds
  ScalarId (*write)(BodyBuilder& body, ScalarId x);
};
constexpr Activation kActivations[] = {{"relu", ScalarOp::kMaximum, Relu},
                                       {"gelu_tanh", ScalarOp::kMul, GeluTanh}};

class EpilogueReader {
 public:
  EpilogueReader(const Contraction& contraction,
                 const std::vector<Buffer>& buffers, const ShapeEnv& shapes)
      : c_(contraction),
        buffers_(buffers),
        shapes_(shapes),
        sum_(SumOf(contraction)) {}

  std::optional<LibraryEpilogue> Read() {
    ScalarId value = c_.value;
    if (node(value).op == ScalarOp::kCast && node(value).args[0] >= sum_ &&
        node(node(value).args[0]).dtype == node(sum_).dtype) {
      value = node(value).args[0];
    }
    if (ReadGeluGradient(value)) return std::move(out_);
    value = BeforeActivation(value);
    const bool read = c_.form == Contraction::Form::kProduct ? ReadLinear(value)
                                                             : ReadTerms(value);
    if (!read) return std::nullopt;
    return std::move(out_);
  }

 private:
  const ScalarNode& node(ScalarId id) const { return c_.body[id]; }

  // Reads the sum times the gradient of a gelu, which is all that a library does then.
  bool ReadGeluGradient(ScalarId value) {
    if (c_.form != Contraction::Form::kProduct || c_.is_batched()) return false;
    const std::optional<ScalarId> input =
        InputOfGeluTanhGradient(c_.body, value, sum_);
    if (!input.has_value()) return false;
    const ScalarNode* const load = LoadOf(*input);
    if (load == nullptr) return false;
    // Of a view the index has quotients of an axis, the address has not.
    const auto address = AddressOf(load->index, buffers_[load->buffer].strides,
                                   c_.extents, shapes_);
    if (!address.has_value()) return false;
    out_.activation = "gelu_tanh_gradient";
    out_.gelu_input = MatrixView(*load, *address);
    return true;
  }

  // The argument of the activation that computes `value`; `value` itself if there is no
  // activation.
  ScalarId BeforeActivation(ScalarId value) {
    if (value == sum_) return value;
    BodyBuilder body;
    const std::vector<ScalarId> ids = CopyBody(
        c_.body, kSameAxes, kNoNode,
        [](const ScalarNode&) { return std::nullopt; }, body);
    for (const Activation& activation : kActivations) {
      if (body.node(ids[value]).op != activation.last) continue;
      for (ScalarId x = sum_; x < value; ++x) {
        if (node(x).dtype != node(value).dtype ||
            activation.write(body, ids[x]) != ids[value]) {
          continue;
        }
        out_.activation = activation.name;
        return x;
      }
    }
    return value;
  }

  bool ReadLinear(ScalarId value) {
    if (ReadScaledSum(value)) return true;
    if (node(value).op != ScalarOp::kAdd) return false;
    for (const size_t side : {0, 1}) {
      const ScalarId sum = node(value).args[side],
                     bias = node(value).args[1 - side];
      if (ReadScaledSum(sum) && ReadScaledBias(bias)) return true;
    }
    return false;
  }

  // Reads a convolution's sum of terms. Libraries do not scale these.
  bool ReadTerms(ScalarId value) {
    if (value == sum_) return true;
    if (node(value).op != ScalarOp::kAdd) return false;
    for (const size_t side : {0, 1}) {
      const ScalarId rest = node(value).args[side],
                     term = node(value).args[1 - side];
      if (!out_.bias.has_value() && ReadBias(term)) {
        if (ReadTerms(rest)) return true;
        out_.bias.reset();
      }
      if (!out_.added.has_value() && ReadAdded(term)) {
        if (ReadTerms(rest)) return true;
        out_.added.reset();
      }
    }
    return false;
  }

  bool ReadScaledSum(ScalarId value) {
    const ScalarId rest = WithoutFactor(value, out_.alpha);
    return rest == sum_;
  }

  bool ReadScaledBias(ScalarId value) {
    return ReadBias(WithoutFactor(value, out_.beta));
  }

  bool ReadBias(ScalarId value) {
    const ScalarNode* const load = LoadOf(value);
    if (load == nullptr) return false;
    const auto address = AddressOf(load->index, buffers_[load->buffer].strides);
    if (!address.has_value()) return false;
    return c_.form == Contraction::Form::kProduct
               ? ReadMatrixBias(*load, *address)
               : ReadChannelBias(*load, *address);
  }

  // The load whose value the term is, cast or not. Null if the term is something else,
  // or if the load's type is not that of the result.
  const ScalarNode* LoadOf(ScalarId value) const {
    if (node(value).op == ScalarOp::kCast) value = node(value).args[0];
    const ScalarNode& load = node(value);
    const bool fits = load.op == ScalarOp::kLoad && load.args.empty() &&
                      load.dtype == c_.result().view.dtype;
    return fits ? &load : nullptr;
  }

  // Reads an array with the strides of the result.
  bool ReadAdded(ScalarId value) {
    const ScalarNode* const load = LoadOf(value);
    if (load == nullptr || c_.written != Contraction::kC) return false;
    const View& result = c_.result().view;
    const auto address = AddressOf(load->index, buffers_[load->buffer].strides);
    const auto own = AddressOf(c_.result().index, result.strides);
    if (!address.has_value() || !own.has_value()) return false;
    for (uint32_t k = 0; k < c_.extents.size(); ++k) {
      if (!c_.extents[k].Is(1) &&
          !(address->CoefficientOf(k) == own->CoefficientOf(k)))
        return false;
    }
    out_.added = View{load->buffer, load->dtype, result.sizes, result.strides,
                      address->offset};
    return true;
  }

  // What a product's result reads of an array, element by element.
  View MatrixView(const ScalarNode& load, const LinearForm& address) const {
    View view{load.buffer, load.dtype, c_.result().view.sizes, {}, 0};
    view.offset = address.offset;
    for (uint32_t d = 0; d < view.sizes.size(); ++d)
      view.strides.push_back(address.CoefficientOf(d));
    return view;
  }

  bool ReadMatrixBias(const ScalarNode& load, const LinearForm& address) {
    out_.bias = MatrixView(load, address);
    return true;
  }

  // Reads one number for each channel of the image or the result. The channel is
  // group * (channels of a group) + (channel in the group).
  bool ReadChannelBias(const ScalarNode& load, const LinearForm& address) {
    constexpr uint32_t kGroup = 1, kOutput = 2, kInput = 3;
    if (c_.written == Contraction::kB) return false;
    const uint32_t place = c_.written == Contraction::kA ? kInput : kOutput;
    const SymExpr stride = address.CoefficientOf(place);
    const SymExpr of_group = stride * c_.extents[place];
    for (uint32_t k = 0; k < c_.extents.size(); ++k) {
      const SymExpr expected = k == place    ? stride
                               : k == kGroup ? of_group
                                             : SymExpr(0);
      // An axis of one point may have any stride.
      if (!c_.extents[k].Is(1) && !(address.CoefficientOf(k) == expected))
        return false;
    }
    const SymExpr one_each =
        c_.extents[place].Is(1) && !c_.extents[kGroup].Is(1)
            ? address.CoefficientOf(kGroup)
            : stride;
    out_.bias = View{load.buffer,
                     load.dtype,
                     {c_.result().view.sizes[1]},
                     {one_each},
                     address.offset};
    return true;
  }

  // If `value` is x * constant, returns x and sets `factor` to the constant. Otherwise
  // returns `value` and sets `factor` to 1.
  ScalarId WithoutFactor(ScalarId value, double& factor) const {
    factor = 1;
    if (node(value).op != ScalarOp::kMul) return value;
    for (const size_t side : {0, 1}) {
      const ScalarNode& constant = node(node(value).args[side]);
      if (constant.op != ScalarOp::kConstant) continue;
      const double number = IsFloat(constant.dtype)
                                ? constant.number.f
                                : static_cast<double>(constant.number.i);
      // A library would not read what it multiplies by 0, nor give its NaNs.
      if (static_cast<float>(number) == 0) continue;
      factor = number;
      return node(value).args[1 - side];
    }
    return value;
  }

  static constexpr ScalarId kNoNode = ~0u;

  const Contraction& c_;
  const std::vector<Buffer>& buffers_;
  const ShapeEnv& shapes_;
  const ScalarId sum_;
  LibraryEpilogue out_;
};

}  // namespace

std::optional<LibraryEpilogue> LibraryEpilogueOf(
    const Contraction& contraction, const std::vector<Buffer>& buffers,
    const ShapeEnv& shapes) {
  return EpilogueReader(contraction, buffers, shapes).Read();
}

}  // namespace kiln
