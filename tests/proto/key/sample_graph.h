#ifndef KILN_TESTS_PROTO_KEY_SAMPLE_GRAPH_H_
#define KILN_TESTS_PROTO_KEY_SAMPLE_GRAPH_H_

#include <string>

#include "proto/compile_service.pb.h"

namespace kiln {

inline wire::SymExpr Number(int64_t value) {
  wire::SymExpr expr;
  expr.set_value(value);
  return expr;
}

inline wire::SymExpr SymbolExpr(int number) {
  wire::SymExpr expr;
  wire::SymInstruction* in = expr.add_code();
  in->set_op(wire::SYM_OP_SYMBOL);
  in->set_value(number);
  return expr;
}

// A contiguous f32[s, 4] whose s is symbol `number`.
inline wire::TensorMeta RowsOfFour(int number) {
  wire::TensorMeta meta;
  meta.set_dtype(wire::DTYPE_FLOAT32);
  meta.set_device(wire::DEVICE_TYPE_CPU);
  *meta.add_sizes() = SymbolExpr(number);
  *meta.add_sizes() = Number(4);
  *meta.add_strides() = Number(4);
  *meta.add_strides() = Number(1);
  return meta;
}

// relu(x + x) of an x: f32[s, 4]. Of its three symbols (unused, s, unused)
// one is used.
inline wire::Graph SampleGraph() {
  wire::Graph graph;
  graph.set_name("sample");
  for (const char* name : {"never", "rows", "nor_this"}) {
    wire::Symbol* symbol = graph.add_symbols();
    symbol->set_name(name);
    symbol->set_hint(10);
    symbol->set_min(1);
    symbol->set_max(4096);
  }
  wire::Input* input = graph.add_inputs();
  input->set_name("x");
  *input->mutable_tensor() = RowsOfFour(1);
  wire::Node* add = graph.add_nodes();
  add->set_op("aten.add.Tensor");
  add->set_name("sum");
  add->set_stack_trace("File \"model.py\", line 3\n");
  add->add_args()->set_value(0);
  add->add_args()->set_value(0);
  wire::NamedArgument* alpha = add->add_kwargs();
  alpha->set_name("alpha");
  alpha->mutable_value()->set_int_value(1);
  *add->add_results() = RowsOfFour(1);
  wire::Node* relu = graph.add_nodes();
  relu->set_op("aten.relu.default");
  relu->add_args()->set_value(1);
  *relu->add_results() = RowsOfFour(1);
  graph.add_outputs()->set_value(2);
  return graph;
}

inline wire::CompileRequest SampleRequest() {
  wire::CompileRequest request;
  *request.mutable_graph() = SampleGraph();
  request.mutable_target()->mutable_cpu()->set_level("x86-64-v3");
  return request;
}

}  // namespace kiln

#endif  // KILN_TESTS_PROTO_KEY_SAMPLE_GRAPH_H_
