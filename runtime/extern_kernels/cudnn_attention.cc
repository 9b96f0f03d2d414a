#include "runtime/extern_kernels/cudnn_attention.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/cudnn_graph.h"

namespace kiln {
namespace {

using Causal = AttentionProblem::Causal;
using Strides = AttentionProblem::Strides;
using Tensor = CudnnGraph::Tensor;

constexpr size_t kOldestVersion = 91600;
constexpr int64_t kAlignedElements = 8;  // of 16 bits: 16 bytes
constexpr uintptr_t kAlignedBytes = 16;
constexpr int64_t kWidest = 256;
// What cuDNN loads in 16 bytes at a time, and does not look at.
constexpr int kAlignedOperands[] = {
    kQueryOperand, kKeyOperand,       kValueOperand,   kOutOperand,
    kGradOperand,  kQueryGradOperand, kKeyGradOperand, kValueGradOperand};

int TypeOf(DType dtype) {
  if (dtype == DType::kFloat16) return kCudnnHalf;
  return dtype == DType::kBFloat16 ? kCudnnBFloat16 : kCudnnFloat;
}

// What an engine may ask for, if the library's own choice asks for less: queries, keys
// and values twice over in f32. One that writes scores down asks for more at once.
int64_t LinearBytes(const AttentionProblem& p) {
  return 2 * static_cast<int64_t>(sizeof(float)) * p.batch * p.heads *
         (p.queries * p.width + p.keys * (p.width + p.value_width));
}

absl::string_view WhyUnfit(const AttentionProblem& p) {
  if (!IsHalf(p.dtype)) return "a dtype that is not half";
  for (const int64_t width : {p.width, p.value_width})
    if (width % kAlignedElements != 0 || width > kWidest || width == 0)
      return "a head size that is no multiple of 8 up to 256";
  if (p.batch * p.heads * p.queries * p.keys == 0) return "a length of 0";
  if (p.backward && p.queries == 1 && p.keys == 1)
    return "the gradient of one query to one key";
  for (const Strides& s : {p.query, p.key, p.value, p.out, p.grad, p.query_grad,
                           p.key_grad, p.value_grad}) {
    if (s == Strides()) continue;  // of a backward
    if (s.column != 1 || s.row % kAlignedElements != 0 ||
        s.head % kAlignedElements != 0 || s.batch % kAlignedElements != 0) {
      return "strides that are not of whole 16 bytes";
    }
  }
  if (p.logsumexp.row != 1 || p.logsumexp.head != p.queries ||
      p.logsumexp.batch != p.queries * p.heads) {
    return "a logsumexp that is not row-major";
  }
  if (p.has_bias && p.bias.column != 1 && p.keys > 1)
    return "a bias whose columns are not next to each other";
  if (p.causal == Causal::kBottomRight) return "a bottom-right mask";
  if (p.window > 0 && p.queries > p.keys)
    return "a window over fewer keys than queries";
  return "";
}

class CudnnAttention final : public PreparedCall {
 public:
  // `names`: of how many engines it asks for the names.
  CudnnAttention(std::shared_ptr<Cudnn> library, const AttentionProblem& p,
                 int names = 0)
      : library_(std::move(library)),
        p_(p),
        names_wanted_(names),
        graph_(library_) {}

  absl::Status Prepare() {
    ASSIGN_OR_RETURN(const CurrentDevice current,
                     library_->device().MakeCurrent());
    if (p_.backward) {
      WriteBackward();
    } else {
      WriteForward();
    }
    ASSIGN_OR_RETURN(const CudnnHandle handle, CudnnHandle::Borrow(*library_));
    ASSIGN_OR_RETURN(plan_,
                     graph_.Build(handle.get(), {.named = p_.algorithm}));
    if (names_wanted_ > 0) {
      const int64_t most = std::max(LinearBytes(p_), plan_.workspace_bytes());
      ASSIGN_OR_RETURN(
          names_, graph_.Engines(handle.get(), {.most_workspace_bytes = most},
                                 names_wanted_));
    }
    workspace_start_ = room_bytes_;
    Room(plan_.workspace_bytes());
    return absl::OkStatus();
  }

  absl::Status Run(const ExternBuffers& buffers, Stream stream) const override {
    for (const int i : kAlignedOperands) {
      if (reinterpret_cast<uintptr_t>(buffers.operand[i]) % kAlignedBytes != 0)
        return MakeError(ErrorReason::kUnsupportedOp,
                         absl::StrCat(Describe(ExternProblem(p_)), ": operand ",
                                      i, " is not on 16 bytes"));
    }
    ASSIGN_OR_RETURN(const CurrentDevice current,
                     library_->device().MakeCurrent());
    return Annotate(
        RunIn(static_cast<char*>(buffers.workspace), buffers, stream),
        Describe(ExternProblem(p_)));
  }

  int64_t workspace_bytes() const override { return room_bytes_; }
  absl::string_view library() const override { return "cuDNN"; }
  std::string algorithm() const override { return plan_.EngineName(); }

  // Of a prepared call.
  std::vector<std::string> TakeNames() { return std::move(names_); }

 private:
  // Memory of a call's own.
  struct Own {
    int64_t id;
    int64_t start;
  };

  int64_t Room(int64_t bytes) {
    const int64_t start = room_bytes_;
    constexpr int64_t kApart = 256;
    room_bytes_ += (bytes + kApart - 1) / kApart * kApart;
    return start;
  }

  CudnnLongs Scores() const {
    return {p_.batch, p_.heads, p_.queries, p_.keys};
  }
  CudnnLongs Rows() const { return {p_.batch, p_.heads, p_.queries, 1}; }

  // An operand of the call; transposed: its last two dimensions exchanged.
  Tensor Operand(int place, const CudnnLongs& sizes, const Strides& s,
                 bool transposed = false) {
    CudnnLongs dims = sizes, strides = {s.batch, s.head, s.row, s.column};
    if (transposed) {
      std::swap(dims[2], dims[3]);
      std::swap(strides[2], strides[3]);
    }
    Tensor t = graph_.Memory(TypeOf(p_.dtype), dims, strides);
    operands_.push_back({t.id, place});
    return t;
  }
  Tensor Query() {
    return Operand(kQueryOperand, {p_.batch, p_.heads, p_.queries, p_.width},
                   p_.query);
  }
  Tensor KeyTransposed() {
    return Operand(kKeyOperand, {p_.batch, p_.key_heads, p_.keys, p_.width},
                   p_.key, true);
  }
  CudnnLongs Values() const {
    return {p_.batch, p_.key_heads, p_.keys, p_.value_width};
  }
  CudnnLongs Outs() const {
    return {p_.batch, p_.heads, p_.queries, p_.value_width};
  }

  Tensor Logsumexp() {
    Tensor t = graph_.Memory(kCudnnFloat, Rows(),
                             {p_.logsumexp.batch, p_.logsumexp.head, 1, 1});
    operands_.push_back({t.id, kLogsumexpOperand});
    return t;
  }

  Tensor OwnMemory(const CudnnLongs& sizes) {
    CudnnLongs strides(4, 1);
    for (size_t d = 3; d-- > 0;) strides[d] = strides[d + 1] * sizes[d + 1];
    Tensor t = graph_.Memory(kCudnnFloat, sizes, strides);
    own_.push_back({t.id, Room(strides[0] * sizes[0] *
                               static_cast<int64_t>(sizeof(float)))});
    return t;
  }

  // scale * query @ key^T + bias.
  Tensor Scaled(const Tensor& query, const Tensor& key) {
    Tensor s = graph_.Matmul(query, key, graph_.Inside(kCudnnFloat, Scores()));
    s = graph_.Pointwise(CudnnPointwise::kMul, s,
                         graph_.Scalar(static_cast<float>(p_.scale)));
    if (!p_.has_bias) return s;
    const Strides& b = p_.bias;
    Tensor bias = graph_.Memory(
        TypeOf(p_.bias_dtype),
        {b.batch == 0 ? 1 : p_.batch, b.head == 0 ? 1 : p_.heads, p_.queries,
         p_.keys},
        {b.batch == 0 ? p_.queries * p_.keys : b.batch,
         b.head == 0 ? p_.queries * p_.keys : b.head,
         p_.queries == 1 ? p_.keys : b.row, p_.keys == 1 ? 1 : b.column});
    operands_.push_back({bias.id, kAttentionBiasOperand});
    return graph_.Pointwise(CudnnPointwise::kAdd, s, bias);
  }

  // What a row does not see becomes -inf.
  Tensor Banded(Tensor s) {
    constexpr float kUnseen = -std::numeric_limits<float>::infinity();
    if (p_.causal == Causal::kTopLeft) {
      const Tensor row = graph_.Index(s, 2), column = graph_.Index(s, 3);
      s = graph_.SelectWhere(CudnnPointwise::kGreaterEqual, row, column, s,
                             kUnseen);
    }
    if (p_.window > 0) {
      const Tensor row = graph_.Index(s, 2), column = graph_.Index(s, 3);
      const Tensor last =
          graph_.Pointwise(CudnnPointwise::kAdd, column,
                           graph_.Scalar(static_cast<float>(p_.window)));
      s = graph_.SelectWhere(CudnnPointwise::kGreater, last, row, s, kUnseen);
    }
    return s;
  }

  // Which weights dropout leaves.
  Tensor Kept() {
    const CudnnLongs one = {1, 1, 1, 1};
    Tensor seed = graph_.Memory(kCudnnInt64, one, one);
    Tensor offset = graph_.Memory(kCudnnInt64, one, one);
    operands_.push_back({seed.id, kSeedOperand});
    operands_.push_back({offset.id, kOffsetOperand});
    return graph_.Bernoulli(1 - p_.dropout, seed, offset, Scores());
  }
  Tensor KeptScale() {
    return graph_.Scalar(static_cast<float>(1 / (1 - p_.dropout)));
  }

  void WriteForward() {
    const Tensor query = Query(), key = KeyTransposed();
    const Tensor value = Operand(kValueOperand, Values(), p_.value);
    const Tensor out = Operand(kOutOperand, Outs(), p_.out);
    const Tensor s = Banded(Scaled(query, key));
    const Tensor top =
        graph_.Reduce(CudnnReduce::kMax, s, graph_.Inside(kCudnnFloat, Rows()));
    const Tensor exp = graph_.Unary(
        CudnnPointwise::kExp, graph_.Pointwise(CudnnPointwise::kSub, s, top));
    const Tensor sum = graph_.Reduce(CudnnReduce::kSum, exp,
                                     graph_.Inside(kCudnnFloat, Rows()));
    const Tensor logsumexp = Logsumexp();
    graph_.Pointwise(CudnnPointwise::kAdd, top,
                     graph_.Unary(CudnnPointwise::kLog, sum),
                     {.memory = &logsumexp});
    const int type = TypeOf(p_.dtype);
    Tensor p = graph_.Pointwise(CudnnPointwise::kDiv, exp, sum,
                                {.type = p_.dropout > 0 ? kCudnnFloat : type});
    if (p_.dropout > 0) {
      p = graph_.Pointwise(CudnnPointwise::kMul, p, Kept());
      p = graph_.Pointwise(CudnnPointwise::kMul, p, KeptScale(),
                           {.type = type});
    }
    graph_.Matmul(p, value, out);
  }

  // dV = P^T dO, dS = P * (dropped(dO V^T) - sum(dO * O)), dQ = dS K * scale,
  // dK = dS^T Q * scale. P is exp(S - logsumexp), dropped where it multiplies dO.
  void WriteBackward() {
    const Tensor query = Query(), key = KeyTransposed();
    const Tensor value = Operand(kValueOperand, Values(), p_.value, true);
    const Tensor out = Operand(kOutOperand, Outs(), p_.out);
    const Tensor grad = Operand(kGradOperand, Outs(), p_.grad);
    const bool drops = p_.dropout > 0;
    const Tensor kept = drops ? Kept() : Tensor();
    const Tensor sums = graph_.Reduce(
        CudnnReduce::kSum, graph_.Pointwise(CudnnPointwise::kMul, grad, out),
        graph_.Inside(kCudnnFloat, Rows()));
    const Tensor delta = OwnMemory(Rows());
    graph_.Pointwise(CudnnPointwise::kMul, sums,
                     graph_.Scalar(static_cast<float>(1 - p_.dropout)),
                     {.memory = &delta});
    const Tensor exp =
        graph_.Unary(CudnnPointwise::kExp,
                     Banded(graph_.Pointwise(CudnnPointwise::kSub,
                                             Scaled(query, key), Logsumexp())));
    Tensor p = exp;
    if (drops) {
      p = graph_.Pointwise(CudnnPointwise::kMul, p, kept);
      p = graph_.Pointwise(CudnnPointwise::kMul, p, KeptScale());
    }
    Gradient(graph_.Transpose(p, TypeOf(p_.dtype)), grad, kValueGradOperand,
             Values(), p_.value_grad);
    Tensor ds =
        graph_.Matmul(grad, value, graph_.Inside(kCudnnFloat, Scores()));
    if (drops) ds = graph_.Pointwise(CudnnPointwise::kMul, ds, kept);
    ds = graph_.Pointwise(CudnnPointwise::kSub, ds, delta);
    ds = graph_.Pointwise(CudnnPointwise::kMul, ds, exp);
    if (drops) ds = graph_.Pointwise(CudnnPointwise::kMul, ds, KeptScale());
    ds = graph_.Pointwise(CudnnPointwise::kMul, ds,
                          graph_.Scalar(static_cast<float>(p_.scale)));
    Gradient(graph_.Transpose(ds, TypeOf(p_.dtype)), query, kKeyGradOperand,
             {p_.batch, p_.key_heads, p_.keys, p_.width}, p_.key_grad);
    // In f32, since blocks of keys add to it.
    const CudnnLongs queries = {p_.batch, p_.heads, p_.queries, p_.width};
    const Tensor sum = OwnMemory(queries);
    graph_.Matmul(ds, graph_.Transpose(key, TypeOf(p_.dtype)), sum);
    const Tensor query_grad =
        Operand(kQueryGradOperand, queries, p_.query_grad);
    graph_.Unary(CudnnPointwise::kIdentity, sum, {.memory = &query_grad});
  }

  // a @ b into a gradient of keys or values, of the heads that share it summed.
  void Gradient(const Tensor& a, const Tensor& b, int place, CudnnLongs sizes,
                const Strides& strides) {
    const Tensor into = Operand(place, sizes, strides);
    if (p_.heads == p_.key_heads) {
      graph_.Matmul(a, b, into);
      return;
    }
    sizes[1] = p_.heads;
    graph_.Reduce(CudnnReduce::kSum,
                  graph_.Matmul(a, b, graph_.Inside(TypeOf(p_.dtype), sizes)),
                  into);
  }

  absl::Status RunIn(char* room, const ExternBuffers& buffers,
                     Stream stream) const {
    std::vector<CudnnGraph::Binding> bindings;
    for (const auto& [id, place] : operands_)
      bindings.push_back({id, buffers.operand[place]});
    for (const Own& own : own_) bindings.push_back({own.id, room + own.start});
    ASSIGN_OR_RETURN(const CudnnHandle handle, CudnnHandle::Borrow(*library_));
    RETURN_IF_ERROR(
        library_->Check(library_->functions().cudnnSetStream(
                            handle.get(), static_cast<CUstream>(stream)),
                        "cudnnSetStream"));
    return plan_.Run(handle.get(), bindings, room + workspace_start_);
  }

  const std::shared_ptr<Cudnn> library_;
  const AttentionProblem p_;
  const int names_wanted_;
  std::vector<std::string> names_;
  CudnnGraph graph_;  // until Prepare is done
  CudnnPlan plan_;
  std::vector<std::pair<int64_t, int>> operands_;  // id, place
  std::vector<Own> own_;
  int64_t room_bytes_ = 0;
  int64_t workspace_start_ = 0;
};

}  // namespace

bool HasCudnnAttention(Cudnn& library) {
  if (library.functions().cudnnGetVersion() < kOldestVersion) return false;
  const auto current = library.device().MakeCurrent();
  return current.ok() && CudnnHandle::Borrow(library).ok();
}

namespace {

// UNSUPPORTED_OP  what cuDNN, or this version of it, does not take
absl::Status CheckFits(const AttentionProblem& problem, const Cudnn& library) {
  const size_t version = library.functions().cudnnGetVersion();
  absl::string_view unfit = WhyUnfit(problem);
  std::string old;
  if (version < kOldestVersion) {
    old = absl::StrCat("found cuDNN ", version, ", expected ", kOldestVersion,
                       " or later");
    unfit = old;
  }
  if (!unfit.empty()) {
    return MakeError(
        ErrorReason::kUnsupportedOp,
        absl::StrCat(Describe(ExternProblem(problem)), ": ", unfit));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PreparedCall>> PrepareCudnnAttention(
    const AttentionProblem& problem, std::shared_ptr<Cudnn> library) {
  RETURN_IF_ERROR(CheckFits(problem, *library));
  auto call = std::make_shared<CudnnAttention>(std::move(library), problem);
  RETURN_IF_ERROR(Annotate(call->Prepare(), Describe(ExternProblem(problem))));
  return std::shared_ptr<const PreparedCall>(std::move(call));
}

absl::StatusOr<std::vector<std::string>> CudnnAttentionAlgorithms(
    const AttentionProblem& problem, std::shared_ptr<Cudnn> library, int most) {
  if (problem.dropout > 0) return std::vector<std::string>();
  RETURN_IF_ERROR(CheckFits(problem, *library));
  CudnnAttention call(std::move(library), problem, most);
  RETURN_IF_ERROR(Annotate(call.Prepare(), Describe(ExternProblem(problem))));
  return call.TakeNames();
}

}  // namespace kiln
