#ifndef KILN_PROTO_CORPUS_CORPUS_CASE_H_
#define KILN_PROTO_CORPUS_CORPUS_CASE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/corpus/corpus_tensor.h"
#include "proto/graph.pb.h"

namespace kiln {

// An input or an expected output: nothing, an integer, or a tensor.
using CorpusValue = std::variant<std::monostate, int64_t, CorpusTensor>;

// Where the values of an input come from when the file has none.
struct CorpusInputSpec {
  TensorLayout layout;
  // Inclusive bounds that integers must keep.
  std::optional<std::pair<int64_t, int64_t>> int_range;
};

// |got - expected| <= atol + rtol * |expected|.
struct Tolerance {
  double rtol = 0;
  double atol = 0;
};

// One graph as PyTorch captured it, and what PyTorch computed for it.
struct CorpusCase {
  std::string name;    // "gpt2_train.fwd0", "add/op/float32/1"
  std::string kind;    // infer, fwd, bwd, op, op_inplace, op_grad
  std::string origin;  // for people

  // Not OK: `graph` is not to be used. UNIMPLEMENTED with the node and what of
  // it the wire or Kiln's dtypes cannot say; the other fields may be empty.
  absl::Status readable;
  wire::Graph graph;

  // False for full/ and seeds/: then `inputs` and `outputs` are empty and
  // corpus_random.h fills inputs in from `specs`.
  bool has_data = false;
  std::vector<CorpusValue> inputs;  // in the order of Graph.inputs
  std::vector<CorpusValue> outputs;
  std::map<int, CorpusTensor> mutated;  // input -> its values after the run
  std::vector<Tolerance> output_tolerance;
  std::map<int, Tolerance> mutated_tolerance;

  // One an input: a layout, or an integer.
  std::vector<std::variant<int64_t, CorpusInputSpec>> specs;

  // What the seeds expect of a compile ("kernels", "num_bytes_accessed", ...;
  // client/corpus_runner/check_expect.h), as JSON text; empty elsewhere.
  std::string expect;
};

// The name without "@1": cases that share it are one graph with other sizes.
std::string BaseName(const CorpusCase& test_case);

// Reads every case of NAME.jsonl with the tensors of NAME.safetensors beside
// it; either may be stored as .zst. A case that cannot be said keeps its place,
// with `readable` not OK.
//
// Errors:
//   NOT_FOUND  no such file
//   DATA_LOSS  a line that is not JSON, a tensor file that is not sound
absl::StatusOr<std::vector<CorpusCase>> ReadCorpusFile(const std::string& path);

}  // namespace kiln

#endif  // KILN_PROTO_CORPUS_CORPUS_CASE_H_
