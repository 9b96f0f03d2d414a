#include "runtime/extern_kernels/blocked_attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/attention_blocks.h"

namespace kiln {
namespace {

// Queries and keys at a time: their scores take 128 KiB, and what they are of as much.
constexpr int64_t kRows = 128;
constexpr int64_t kColumns = 256;
constexpr float kNothing = -std::numeric_limits<float>::infinity();

int64_t BlocksOf(int64_t length, int64_t block) {
  return (length + block - 1) / block;
}

// The arrays of one call.
struct Arrays {
  HeadArray query, key, value, out, logsumexp, bias;
  HeadArray grad, query_grad, key_grad, value_grad;
};

Arrays ArraysOf(const AttentionProblem& p, const ExternBuffers& buffers) {
  const auto array = [&](int operand, const AttentionProblem::Strides& strides,
                         int64_t columns, DType dtype) {
    return HeadArray{buffers.operand[operand], dtype, strides, columns};
  };
  const int64_t e = p.width, v = p.value_width;
  return {array(kQueryOperand, p.query, e, p.dtype),
          array(kKeyOperand, p.key, e, p.dtype),
          array(kValueOperand, p.value, v, p.dtype),
          array(kOutOperand, p.out, v, p.dtype),
          array(kLogsumexpOperand, p.logsumexp, 1, DType::kFloat32),
          array(kAttentionBiasOperand, p.bias, p.keys, p.bias_dtype),
          array(kGradOperand, p.grad, v, p.dtype),
          array(kQueryGradOperand, p.query_grad, e, p.dtype),
          array(kKeyGradOperand, p.key_grad, e, p.dtype),
          array(kValueGradOperand, p.value_grad, v, p.dtype)};
}

// Memory of one thread, cut into pieces.
class Room {
 public:
  explicit Room(int64_t floats)
      : memory_(new (std::nothrow) float[static_cast<size_t>(floats)]) {}

  bool ok() const { return memory_ != nullptr; }
  void Empty() { taken_ = 0; }
  float* Take(int64_t floats) {
    float* const piece = memory_.get() + taken_;
    taken_ += floats;
    return piece;
  }

 private:
  std::unique_ptr<float[]> memory_;
  int64_t taken_ = 0;
};

class BlockedAttention final : public PreparedCall {
 public:
  BlockedAttention(const AttentionProblem& problem,
                   std::shared_ptr<const DnnlLibrary> library,
                   ThreadPool& threads)
      : p_(problem), library_(std::move(library)), threads_(threads) {}

  absl::Status Run(const ExternBuffers& buffers, Stream) const override {
    Work work{this, ArraysOf(p_, buffers)};
    const int64_t pieces =
        p_.backward ? p_.batch * p_.key_heads
                    : p_.batch * p_.heads * BlocksOf(p_.queries, kRows);
    threads_.ParallelFor(
        pieces, 1,
        [](void* context, int64_t begin, int64_t end) {
          Work& work = *static_cast<Work*>(context);
          work.self->RunPieces(work, begin, end);
        },
        &work);
    if (work.lacks_memory.load()) {
      return absl::ResourceExhaustedError(
          Describe(p_) + ": no memory for what a thread needs");
    }
    return DnnlLibrary::Check(work.failed.load(), "sgemm");
  }

  absl::string_view library() const override {
    return library_ != nullptr ? "own blocks, oneDNN" : "own blocks";
  }

 private:
  struct Work {
    const BlockedAttention* self;
    const Arrays arrays;
    std::atomic<dnnl_status_t> failed{dnnl_success};
    std::atomic<bool> lacks_memory{false};
  };
  // Rows of queries and columns of keys that meet.
  struct Meeting {
    int64_t batch, head, row, rows, column, columns;
  };

  int64_t sharing() const { return p_.heads / p_.key_heads; }
  int64_t Shift() const {
    return p_.causal == AttentionProblem::Causal::kBottomRight
               ? p_.keys - p_.queries
               : 0;
  }
  // The columns that a row sees: [first, end), which may be none.
  int64_t FirstSeen(int64_t row) const {
    if (p_.window == 0) return 0;
    return std::max<int64_t>(0, row + Shift() - p_.window + 1);
  }
  int64_t EndSeen(int64_t row) const {
    if (p_.causal == AttentionProblem::Causal::kNone) return p_.keys;
    return std::clamp<int64_t>(row + Shift() + 1, 0, p_.keys);
  }

  void RunPieces(Work& work, int64_t begin, int64_t end) const {
    std::optional<DnnlLibrary::SingleThread> alone;
    if (library_ != nullptr) alone.emplace(*library_);
    const int64_t widest = std::max(p_.width, p_.value_width);
    const int64_t blocks =
        2 * kRows * kColumns + (2 * kRows + 4 * kColumns) * widest + 2 * kRows;
    const int64_t rows = p_.backward ? sharing() * p_.queries : kRows;
    Room room(blocks + rows * (widest + 1));
    if (!room.ok()) {
      work.lacks_memory.store(true);
      return;
    }
    for (int64_t i = begin; i < end; ++i) {
      room.Empty();
      if (p_.backward) {
        Backward(work, i / p_.key_heads, i % p_.key_heads, room);
      } else {
        const int64_t count = BlocksOf(p_.queries, kRows);
        Forward(work, i / count / p_.heads, i / count % p_.heads,
                i % count * kRows, room);
      }
    }
  }

  void Multiply(Work& work, const FloatBlock& a, const FloatBlock& b,
                float scale, bool adds, float* out, int64_t leading) const {
    const dnnl_status_t status =
        MultiplyBlocks(library_.get(), a, b, scale, adds, out, leading);
    if (status != dnnl_success) work.failed.store(status);
  }

  // scores[rows, kColumns], masked.
  void Scores(Work& work, const Meeting& at, const FloatBlock& query,
              const FloatBlock& key, float* scores) const {
    Multiply(work, query, key.Transposed(), static_cast<float>(p_.scale), false,
             scores, kColumns);
    for (int64_t i = 0; i < at.rows; ++i) {
      float* const row = scores + i * kColumns;
      const int64_t m = at.row + i;
      if (p_.has_bias)
        work.arrays.bias.AddTo(row, at.batch, at.head, m, at.column,
                               at.columns);
      const auto within = [&](int64_t column) {
        return std::clamp<int64_t>(column - at.column, 0, at.columns);
      };
      std::fill(row, row + within(FirstSeen(m)), kNothing);
      std::fill(row + within(EndSeen(m)), row + at.columns, kNothing);
    }
  }

  void Forward(Work& work, int64_t batch, int64_t head, int64_t row,
               Room& room) const {
    const Arrays& arrays = work.arrays;
    const int64_t rows = std::min(kRows, p_.queries - row), v = p_.value_width;
    float* const scores = room.Take(kRows * kColumns);
    float* const sums = room.Take(kRows * v);
    float* const tops = room.Take(kRows);
    float* const totals = room.Take(kRows);
    float* const key_room = room.Take(kColumns * p_.width);
    float* const value_room = room.Take(kColumns * v);
    const FloatBlock query =
        arrays.query.Read(batch, head, row, rows, room.Take(kRows * p_.width));
    std::fill_n(sums, rows * v, 0.0f);
    std::fill_n(tops, rows, kNothing);
    std::fill_n(totals, rows, 0.0f);
    const int64_t end = EndSeen(row + rows - 1);
    for (int64_t n = FirstSeen(row); n < end; n += kColumns) {
      const Meeting at = {batch, head, row,
                          rows,  n,    std::min(kColumns, end - n)};
      const int64_t x = head / sharing();
      Scores(work, at, query,
             arrays.key.Read(batch, x, n, at.columns, key_room), scores);
      for (int64_t i = 0; i < rows; ++i) {
        AddWeights(scores + i * kColumns, at.columns, tops[i], totals[i],
                   sums + i * v);
      }
      Multiply(work, {scores, rows, at.columns, kColumns},
               arrays.value.Read(batch, x, n, at.columns, value_room), 1, true,
               sums, v);
    }
    for (int64_t i = 0; i < rows; ++i) {
      const bool blind = totals[i] == 0;
      if (!blind) ScaleBy(1 / totals[i], sums + i * v, v);
      const float logarithm = blind ? 0 : tops[i] + std::log(totals[i]);
      arrays.logsumexp.Write(batch, head, row + i, 1, &logarithm);
    }
    arrays.out.Write(batch, head, row, rows, sums);
  }

  // Makes weights of a row of scores, as of the largest so far; what is summed up is
  // scaled to it.
  void AddWeights(float* scores, int64_t columns, float& top, float& total,
                  float* sums) const {
    const float before = top;
    top = std::max(top, LargestOf(scores, columns));
    if (top > before && total != 0) {
      float shrunk = before;
      total *= Exponentiate(&shrunk, 1, top);
      ScaleBy(shrunk, sums, p_.value_width);
    }
    total += Exponentiate(scores, columns, top == kNothing ? 0 : top);
  }

  // What the backward of a head of keys holds.
  struct Held {
    float *query_grads, *deltas;        // of all its heads of queries
    float *key_grads, *value_grads;     // of the columns at hand
    float *p, *dp;                      // [kRows, kColumns]
    float *query, *key, *value, *grad;  // where what is read is widened to
  };

  void Backward(Work& work, int64_t batch, int64_t x, Room& room) const {
    const int64_t heads = sharing(), e = p_.width, v = p_.value_width;
    Held held;
    held.query_grads = room.Take(heads * p_.queries * e);
    held.deltas = room.Take(heads * p_.queries);
    held.p = room.Take(kRows * kColumns);
    held.dp = room.Take(kRows * kColumns);
    held.query = room.Take(kRows * e);
    held.grad = room.Take(kRows * v);
    for (float** piece : {&held.key, &held.key_grads})
      *piece = room.Take(kColumns * e);
    for (float** piece : {&held.value, &held.value_grads})
      *piece = room.Take(kColumns * v);
    std::fill_n(held.query_grads, heads * p_.queries * e, 0.0f);
    for (int64_t g = 0; g < heads; ++g)
      PutDeltas(work.arrays, batch, x * heads + g,
                held.deltas + g * p_.queries);
    for (int64_t n = 0; n < p_.keys; n += kColumns) {
      const int64_t columns = std::min(kColumns, p_.keys - n);
      std::fill_n(held.key_grads, columns * e, 0.0f);
      std::fill_n(held.value_grads, columns * v, 0.0f);
      for (int64_t g = 0; g < heads; ++g) {
        for (int64_t m = 0; m < p_.queries; m += kRows) {
          const int64_t rows = std::min(kRows, p_.queries - m);
          if (EndSeen(m + rows - 1) <= n || FirstSeen(m) >= n + columns)
            continue;
          AddGradients(work, {batch, x * heads + g, m, rows, n, columns}, x, g,
                       held);
        }
      }
      work.arrays.key_grad.Write(batch, x, n, columns, held.key_grads);
      work.arrays.value_grad.Write(batch, x, n, columns, held.value_grads);
    }
    for (int64_t g = 0; g < heads; ++g) {
      work.arrays.query_grad.Write(batch, x * heads + g, 0, p_.queries,
                                   held.query_grads + g * p_.queries * e);
    }
  }

  // sum(grad * out) of each row.
  void PutDeltas(const Arrays& arrays, int64_t batch, int64_t head,
                 float* deltas) const {
    for (int64_t m = 0; m < p_.queries; ++m) {
      double sum = 0;
      for (int64_t e = 0; e < p_.value_width; ++e)
        sum += static_cast<double>(arrays.grad.At(batch, head, m, e)) *
               arrays.out.At(batch, head, m, e);
      deltas[m] = static_cast<float>(sum);
    }
  }

  // P = e^(scores - logsumexp), dS = P * (grad @ value^T - delta) * scale.
  void AddGradients(Work& work, const Meeting& at, int64_t x, int64_t g,
                    const Held& held) const {
    const Arrays& arrays = work.arrays;
    const FloatBlock query =
        arrays.query.Read(at.batch, at.head, at.row, at.rows, held.query);
    const FloatBlock grad =
        arrays.grad.Read(at.batch, at.head, at.row, at.rows, held.grad);
    const FloatBlock key =
        arrays.key.Read(at.batch, x, at.column, at.columns, held.key);
    const FloatBlock value =
        arrays.value.Read(at.batch, x, at.column, at.columns, held.value);
    Scores(work, at, query, key, held.p);
    Multiply(work, grad, value.Transposed(), 1, false, held.dp, kColumns);
    for (int64_t i = 0; i < at.rows; ++i) {
      const int64_t m = at.row + i;
      Exponentiate(held.p + i * kColumns, at.columns,
                   arrays.logsumexp.At(at.batch, at.head, m, 0));
      ScoreGradients(held.p + i * kColumns, held.dp + i * kColumns, at.columns,
                     held.deltas[g * p_.queries + m],
                     static_cast<float>(p_.scale));
    }
    const FloatBlock p = {held.p, at.rows, at.columns, kColumns};
    const FloatBlock ds = {held.dp, at.rows, at.columns, kColumns};
    Multiply(work, p.Transposed(), grad, 1, true, held.value_grads,
             p_.value_width);
    Multiply(work, ds.Transposed(), query, 1, true, held.key_grads, p_.width);
    Multiply(work, ds, key, 1, true,
             held.query_grads + (g * p_.queries + at.row) * p_.width, p_.width);
  }

  const AttentionProblem p_;
  const std::shared_ptr<const DnnlLibrary>
      library_;  // null: not on the machine
  ThreadPool& threads_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const PreparedCall>> PrepareBlockedAttention(
    const AttentionProblem& problem, std::shared_ptr<const DnnlLibrary> library,
    ThreadPool& threads) {
  if (problem.dtype != DType::kFloat32 && !IsHalf(problem.dtype)) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     Describe(problem) + ": expected f32 or a half type");
  }
  if (problem.dropout > 0) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     Describe(problem) + ": dropout on the CPU");
  }
  return std::make_shared<BlockedAttention>(problem, std::move(library),
                                            threads);
}

}  // namespace kiln
