#ifndef KILN_COMPILER_LOOP_STATEMENT_READER_H_
#define KILN_COMPILER_LOOP_STATEMENT_READER_H_

// Reads the statements that the texts of loop programs (loop_text.h) and of
// kernel plans (schedule/kernel_plan_text.h) share.

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/loop/line_reader.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// Keeps the buffers declared so far and the nest that is being read. Errors are recorded
// in the LineReader of their line.
class StatementReader {
 public:
  std::vector<Buffer>& buffers() { return buffers_; }

  // "(s0 in [1, 65536] = 8, ...)".
  static ShapeEnv ReadSymbols(LineReader& in);

  // Reads a declaration like "in x : f32[8] index 0" and adds the buffer. Returns false,
  // and reads nothing, if the line is no declaration.
  bool TakeBuffer(LineReader& in);

  // BeginNest reads "nest add [i0 in 8] {" without its first word. ReadNestLine reads the
  // following lines, and returns the nest at "}".
  void BeginNest(LineReader& in);
  bool in_nest() const { return in_nest_; }
  std::optional<LoopNest> ReadNestLine(LineReader& in);

  // The same for "product mm [m i0 in 8, ...] {".
  void BeginContraction(Contraction::Form form, LineReader& in);
  bool in_contraction() const { return in_contraction_; }
  std::optional<Contraction> ReadContractionLine(LineReader& in);

  // The same for "attention sdpa [b 2, h 4, ...] {".
  void BeginAttention(bool backward, LineReader& in);
  bool in_attention() const { return in_attention_; }
  std::optional<Attention> ReadAttentionLine(LineReader& in);

  // The name of a buffer that was declared.
  BufferId ReadBufferName(LineReader& in);

  // These read statements without their first word too.
  RowOrder ReadOrder(LineReader& in);
  Fill ReadFill(LineReader& in);
  ProgramOutput ReadReturn(LineReader& in);

  std::vector<View> ReadViews(LineReader& in);

 private:
  View ReadView(LineReader& in);
  void ReadNode(LineReader& in, std::vector<ScalarNode>& body);
  void ReadArguments(LineReader& in, ScalarNode& node);
  void ReadStore(LineReader& in);

  std::vector<Buffer> buffers_;
  absl::flat_hash_map<std::string, BufferId> numbers_;
  LoopNest nest_;
  bool in_nest_ = false;
  Contraction contraction_;
  bool in_contraction_ = false;
  Attention attention_;
  bool in_attention_ = false;
};

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_STATEMENT_READER_H_
