#ifndef KILN_TESTS_CLIENT_COMPILECTL_RELU_CASE_H_
#define KILN_TESTS_CLIENT_COMPILECTL_RELU_CASE_H_

#include <fstream>
#include <string>

namespace kiln {

// Writes a corpus file of one case, an operator (relu) of four floats, and gives
// its path.
inline std::string WriteReluCase(const std::string& folder,
                                 const std::string& op = "aten.relu.default") {
  const std::string path = folder + "/relu.jsonl";
  const std::string meta =
      R"({"shape": [4], "stride": [1], "dtype": "float32", "device": "cpu",)"
      R"( "storage_offset": 0})";
  std::ofstream(path)
      << R"({"name": "r", "kind": "op", "nodes": [{"name": "x", "op": )"
      << R"("placeholder", "target": "x", "args": [], "kwargs": {}, "meta": )"
      << meta << R"(}, {"name": "y", "op": "call_function", "target": ")" << op
      << R"(", "args": [{"node": "x"}], "kwargs": {}, )"
      << R"("meta": )" << meta << R"(}, {"name": "output", "op": "output", )"
      << R"("args": [[{"node": "y"}]]}], "constants": {}, "inputs": [)" << meta
      << "]}\n";
  return path;
}

}  // namespace kiln

#endif  // KILN_TESTS_CLIENT_COMPILECTL_RELU_CASE_H_
