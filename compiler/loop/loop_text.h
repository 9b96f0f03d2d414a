#ifndef KILN_COMPILER_LOOP_LOOP_TEXT_H_
#define KILN_COMPILER_LOOP_LOOP_TEXT_H_

// Loop programs as text, one statement a line:
//
//   loops @bias_relu(s0 in [1, 65536] = 8) {
//     in  x : f32[s0, 256] index 0 align 4
//     tmp buf1 : f32[s0, 256]
//     out buf2 : f32[256, s0] strides [1, 256]
//     nest add [i0 in s0, i1 in 256] {
//       t0 = load f32 x[i0, i1]
//       t1 = constant f32 1.5
//       t2 = add f32 t0, t1
//       buf1[i0, i1] = t2
//     }
//     nest sum [i0 in s0, reduce i1 in 256] { … t1 = reduce f32 t0 by sum … }
//     product addmm [m i0 in s0, n i1 in 8, k i2 in 256] {
//       a view buf1 f32 [s0, 256] strides [256, 1] offset 0 at [i0, i2]
//       b view w f32 [256, 8] strides [1, 256] offset 0 at [i2, i1]
//       c view buf2 f32 [s0, 8] strides [8, 1] offset 0 at [i0, i1]
//       t0 = factor f32 number 0
//       t1 = factor f32 number 1
//       t2 = contract f32 t0, t1
//       t3 = load f32 bias[i1]
//       t4 = add f32 t3, t2
//       c = t4
//       allow tf32
//     }
//     order sort from sort largest 0 k 0 (view …) -> (view …; view …)
//     fill buf3 = 0
//     return view buf2 f32 [...] strides [...] offset 0
//   }
//
// Floats have enough digits to read the same bits back. The value of a fill is the
// integer of its bits. `align` is omitted if it is 16. Lines that begin with // are
// comments.
//
// Names and sources of symbols and the guards taken so far are not in the text.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

std::string ToText(const LoopProgram& program);

// One nest, indented by `indent` spaces. Also part of a kernel's text.
std::string ToText(const LoopNest& nest, const std::vector<Buffer>& buffers,
                   int indent);
std::string ToText(const Buffer& buffer);
std::string SymbolsText(const ShapeEnv& shapes);  // "(s0 in … = …, …)"
std::string ToText(const View& view, const std::vector<Buffer>& buffers);

std::string DimsText(const DimVector& dims);  // "[s0, 8]"
// The shortest text that reads back to the same double.
std::string NumberText(double f);
// "(view …; view …)".
std::string ViewsText(absl::Span<const View> views,
                      const std::vector<Buffer>& buffers);

std::string ToText(const Contraction& contraction,
                   const std::vector<Buffer>& buffers, int indent);
std::string ToText(const Attention& attention,
                   const std::vector<Buffer>& buffers, int indent);
std::string StepText(const RowOrder& order, const std::vector<Buffer>& buffers);
std::string StepText(const Fill& fill, const std::vector<Buffer>& buffers);
std::string OutputText(const ProgramOutput& output,
                       const std::vector<Buffer>& buffers);

// Reads what ToText writes. Errors: INVALID_ARGUMENT with line, column, what was found
// and what was expected.
absl::StatusOr<LoopProgram> ParseLoopProgram(absl::string_view text);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_LOOP_TEXT_H_
