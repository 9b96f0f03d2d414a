// The client in one page: compiles relu(x + b) for any number of rows through a
// daemon, and runs it.
//
//   example SOCKET
#include <cstdio>

#include "client/graph_builder.h"
#include "client/session.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: example SOCKET\n");
    return 2;
  }
  kiln::SessionOptions options;
  options.daemon.socket = argv[1];
  const auto session = kiln::Session::Open(options);
  if (!session.ok()) {
    std::fprintf(stderr, "%s\n", session.status().ToString().c_str());
    return 1;
  }

  kiln::GraphBuilder g("bias_relu");
  const kiln::SizeExpr n = g.Symbol("N", {.hint = 2});
  const kiln::TensorSpec rows = {kiln::DType::kFloat32, {n, 4}};
  const kiln::Value x = g.Input("x", rows);
  const kiln::Value b = g.Input("b", {kiln::DType::kFloat32, {4}});
  const kiln::Value s = g.Node("aten.add.Tensor", {x, b}, rows);
  g.Output(g.Node("aten.relu.default", {s}, rows));
  const auto graph = g.Build();
  if (!graph.ok()) {
    std::fprintf(stderr, "%s\n", graph.status().ToString().c_str());
    return 1;
  }

  const auto callable = (*session)->Compile(*graph);
  if (!callable.ok()) {
    std::fprintf(stderr, "%s\n", callable.status().ToString().c_str());
    return 1;
  }
  float xs[8] = {-4, -3, -2, -1, 0, 1, 2, 3};
  float bs[4] = {1, 1, 1, 1};
  kiln::Tensor tx = {.data = xs, .sizes = {2, 4}, .strides = {4, 1}};
  kiln::Tensor tb = {.data = bs, .sizes = {4}, .strides = {1}};
  const auto results = (*callable)->Run({tx, tb});
  if (!results.ok()) {
    std::fprintf(stderr, "%s\n", results.status().ToString().c_str());
    return 1;
  }
  const auto& y = std::get<kiln::Tensor>((*results)[0]);
  for (int i = 0; i < 8; ++i) {
    std::printf("%g ", static_cast<const float*>(y.data)[i]);
  }
  std::printf("\n");
  return 0;
}
