#ifndef KILN_PROTO_CORPUS_CORPUS_GRAPH_H_
#define KILN_PROTO_CORPUS_CORPUS_GRAPH_H_

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/corpus/safetensors.h"
#include "proto/graph.pb.h"

namespace kiln {

// Makes the wire Graph of one corpus case (one line of a .jsonl file).
//
//   placeholder    an input; every input takes a value number, scalars too. Its
//                  layout is that of the tensor given, unless symbols are in it
//   get_attr       a constant, its data from `tensors` or inline
//   getitem        no node: names one of several results
//   a node whose meta is a symbolic integer (mul, sym_size, ...)
//                  no node: stands for its expression
//   call_function  a node; its metas become `results`
//   output         outputs; a tensor output asks for the strides that PyTorch
//                  recorded, or, with symbols, for those of its node's meta
//
// Symbols are numbered in the order in which the inputs name them. A symbol is
// at least 2: PyTorch gives sizes of 0 and 1 graphs of their own.
//
// Errors:
//   UNIMPLEMENTED     UNSUPPORTED_OP   an argument, dtype, device or expression
//                     that the wire cannot say: the node and the thing
//   INVALID_ARGUMENT  MALFORMED_GRAPH  the line is not what the format says
//   DATA_LOSS, NOT_FOUND               a constant's data
// The JSON library throws at a field that is missing or of another type;
// ReadCorpusFile is its edge, who says which line it was.
absl::StatusOr<wire::Graph> GraphOfCase(const nlohmann::json& line,
                                        const Safetensors& tensors);

}  // namespace kiln

#endif  // KILN_PROTO_CORPUS_CORPUS_GRAPH_H_
