#ifndef KILN_PROTO_CORPUS_CORPUS_METAS_H_
#define KILN_PROTO_CORPUS_CORPUS_METAS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/graph.pb.h"

namespace kiln {

// Whether a node's meta, or a described input, is that of one tensor.
bool IsTensorMeta(const nlohmann::json& meta);

// The symbols of one corpus case, and its metas in the wire's words.
//
// A missing or mistyped field throws, as the JSON library does: the caller is
// inside of its edge (corpus_graph.cc).
class CorpusMetas {
 public:
  // Numbers the symbols that the inputs of `line` name, in order, with the hint
  // that stands there.
  void FindSymbols(const nlohmann::json& line);

  void AddSymbols(wire::Graph& graph) const;

  // A dimension: a number, or the text of an expression. UNIMPLEMENTED for a
  // symbol that no input gives; else the errors of ParseSymText.
  absl::StatusOr<wire::SymExpr> Expr(const nlohmann::json& dimension) const;

  // UNIMPLEMENTED for a dtype or device the wire cannot say.
  absl::StatusOr<wire::TensorMeta> Meta(const nlohmann::json& meta) const;

 private:
  void NameSymbols(const nlohmann::json& expression,
                   const nlohmann::json& hint);

  std::vector<wire::Symbol> symbols_;
  std::map<std::string, int64_t> numbers_;
};

}  // namespace kiln

#endif  // KILN_PROTO_CORPUS_CORPUS_METAS_H_
