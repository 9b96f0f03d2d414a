#include <string>

#include "client/c_api/kiln.h"
#include "gtest/gtest.h"
#include "tests/client/c_api/local_session.h"

// The nodes of a graph that Kiln does not compile, as a program in C learns of them.

namespace kiln {
namespace {

using RefusedNodes = LocalSession;

TEST_F(RefusedNodes, AStatusNamesThemAll) {
  KilnGraph* graph = kiln_graph_new("refused", KILN_CPU);
  const KilnSize size = {4, -1};
  const KilnSpec spec = {KILN_FLOAT32, 1, &size, nullptr};
  KilnArg arg = {};
  arg.kind = KILN_ARG_VALUE;
  arg.integer = kiln_graph_input(graph, "x", &spec);
  for (const char* op : {"qqqqqqqq.one", "aten.sin.default", "qqqqqqqq.two"}) {
    arg.integer = kiln_graph_node(graph, op, &arg, 1, &spec);
  }
  kiln_graph_output(graph, static_cast<uint32_t>(arg.integer));
  KilnCallable* callable = nullptr;
  KilnStatus* status = kiln_compile(session(), graph, &callable);
  kiln_graph_free(graph);

  ASSERT_NE(status, nullptr);
  EXPECT_STREQ(kiln_status_reason(status), "UNSUPPORTED_OP");
  ASSERT_EQ(kiln_status_refusal_count(status), 2);
  EXPECT_EQ(kiln_status_refusal_node(status, 0), 0u);
  EXPECT_EQ(kiln_status_refusal_node(status, 1), 2u);
  EXPECT_STREQ(kiln_status_refusal_operator(status, 1), "qqqqqqqq.two");
  EXPECT_STREQ(kiln_status_refusal_reason(status, 1), "UNSUPPORTED_OP");
  EXPECT_STREQ(kiln_status_refusal_text(status, 1),
               "operator qqqqqqqq.two is not known");
  EXPECT_EQ(kiln_status_refuses_more(status), 0);
  for (const int32_t beyond : {-1, 2}) {
    EXPECT_EQ(kiln_status_refusal_node(status, beyond), 0u);
    EXPECT_STREQ(kiln_status_refusal_operator(status, beyond), "");
    EXPECT_STREQ(kiln_status_refusal_reason(status, beyond), "");
    EXPECT_STREQ(kiln_status_refusal_text(status, beyond), "");
  }
  kiln_status_free(status);
}

TEST_F(RefusedNodes, AnotherErrorNamesNone) {
  KilnCallable* callable = nullptr;
  KilnStatus* status = kiln_compile(session(), nullptr, &callable);
  ASSERT_NE(status, nullptr);
  EXPECT_EQ(kiln_status_refusal_count(status), 0);
  kiln_status_free(status);
}

}  // namespace
}  // namespace kiln
