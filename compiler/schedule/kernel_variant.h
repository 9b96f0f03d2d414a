#ifndef KILN_COMPILER_SCHEDULE_KERNEL_VARIANT_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_VARIANT_H_

// How a kernel's iteration space is shared out: one struct for each target and
// mapping, with every number that the writer of the kernel needs. The schedule
// fills it in; codegen transcribes it and chooses nothing.
//
// Words used below. A *group* is `vector` neighbours on the vector axis, moved
// in one access of up to 16 bytes. An *outer point* is a point of the axes that
// are not reduced, a *reduced point* one of those that are.

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace kiln {

// The most floats that a CUDA thread adds before it continues with a double. Adding that
// many loses a few units in a float's last place.
inline constexpr int kMostFloatsAdded = 512;

// Steps that are written out of a loop that need not be: over groups in shared memory
// (CudaRows.stages), or over other blocks' partial results.
inline constexpr int kWrittenOut = 4;

// The most values of a group whose code is written twice (CudaPoints.whole).
inline constexpr int kMostWritten = 40;

// Before choose_variants has run.
struct Unmapped {
  friend bool operator==(const Unmapped&, const Unmapped&) = default;
};

// --- CUDA.

// No reduction. A thread takes `unroll` groups, which are `threads` groups apart, and
// issues their loads together. The vector axis is the last one.
struct CudaPoints {
  int vector = 1;
  int unroll = 1;
  int threads = 256;  // a block
  // 1: groups begin where memory is aligned, not where rows do. The first and
  // the last group of a row may be partial. For rows of any length.
  int peel = 0;
  // The most blocks a multiprocessor gets at launch: the kernel is a loop that any
  // number of blocks can share. 0: the grid covers all points.
  int blocks = 0;
  // 1: a multiprocessor has one block, since the grid has no more, and its threads
  // may have all registers that there are.
  int alone = 0;
  // The most values of a group that is written twice where it may be partial: whole
  // groups, nearly all, then need no question at each neighbour.
  int whole = 0;
  friend bool operator==(const CudaPoints&, const CudaPoints&) = default;
};

// No reduction; some accesses are contiguous along `axis`, the others along the
// last axis. A block of kTileThreads threads moves a tile of both through shared
// memory.
inline constexpr int kTileThreads = 256;
struct CudaTiles {
  int axis = 0;
  int edge = 32;   // elements of the tile along the last axis
  int depth = 32;  // elements of the tile along `axis`
  int vector = 1;  // elements of an access along the last axis
  int across = 1;  // the same along `axis`
  // 1: groups begin where the memory of a row is aligned, along both axes, for rows of
  // any length (tile_walks.h).
  int peel = 0;
  int whole = 0;  // as CudaPoints.whole
  friend bool operator==(const CudaTiles&, const CudaTiles&) = default;
};

// A reduction along contiguous elements: `lanes` neighbouring threads take one
// outer point. The vector axis is the last reduced one.
struct CudaRows {
  int vector = 1;
  int lanes = 32;  // threads of a row, a power of two
  int rows = 1;    // that a block works on at once
  // Groups a thread keeps in registers, so that memory is read once: all of its
  // share of a row. 0: each pass over the row reads it again.
  int held = 0;
  int hold_costly = 0;  // 1: results of exp and the like are kept as well
  int unroll = 1;       // groups whose loads are issued together when held is 0
  // Blocks that share a row. The last one to finish adds their partial results
  // in the order of their numbers.
  int parts = 1;
  int peel = 0;  // as CudaPoints.peel
  // 0: held values stand in registers. Otherwise they stand in shared memory, which
  // has room for this many rows of the block: one is worked on while the others are
  // being copied.
  int stages = 0;
  // Rows that a block takes one after the other, all of one stretch of the nest's
  // kSum stores, which its threads add in registers. 0: the nest has no such stores.
  int stretch = 0;
  // Blocks that share a row and read each other's results, so that a row goes
  // through all of its passes at once: a thread block cluster.
  int cluster = 1;
  int blocks = 0;  // as CudaPoints.blocks
  int alone = 0;   // as CudaPoints.alone
  int whole = 0;   // as CudaPoints.whole
  // Where held is 0: the most floats that a thread adds before it adds their sum as a
  // double, a multiple of what it adds in one step, `vector` times `unroll`. A shorter
  // sum is one block. Held rows, with 0, add all of a thread's share as floats.
  int floats = kMostFloatsAdded;
  // With `stages`: 1: values that a row has once are copied to shared memory as well, if
  // an asynchronous copy can move them (held_rows.h).
  int once = 0;
  // 1: divisions by constants have a branch, which ptxas does not move code across.
  // Without, it would begin the last pass of a stretch before the sums of the first are
  // there: 190 registers of a LayerNorm's backward instead of 135.
  int branch = 0;
  // With `stretch`, for blocks of several rows: held groups whose sums the rows join at
  // once through shared memory. 0: there is nothing to join.
  int joined = 0;
  friend bool operator==(const CudaRows&, const CudaRows&) = default;
};

// A reduction whose contiguous elements belong to different outer points. Neighbouring
// threads take neighbouring groups of outer points. The vector axis is the last outer
// one.
struct CudaColumns {
  int vector = 1;
  int across = 32;  // groups of columns side by side in a block
  int down = 8;     // threads that share a group of columns
  int unroll = 1;   // reduced points whose loads are issued together
  int parts = 1;    // as CudaRows.parts
  // 1: groups begin where the memory of a row is aligned, for rows of any length. A
  // row may begin inside of a group, so a block has one more thread side by side. All
  // rows of a thread are aligned alike: `down` is a multiple of `vector`.
  int peel = 0;
  int whole = 0;  // as CudaPoints.whole
  // As CudaRows.floats; a thread adds `unroll` floats of a column in one step.
  int floats = kMostFloatsAdded;
  friend bool operator==(const CudaColumns&, const CudaColumns&) = default;
};

// Scans along contiguous elements, without other reductions: `lanes` neighbouring
// threads take one outer point from its first element to its last. The vector
// axis is the last reduced one, which is the only one.
struct CudaScans {
  int vector = 1;
  int lanes = 32;  // a power of two
  int rows = 1;    // outer points that a block works on at once
  int peel = 0;    // as CudaPoints.peel
  int unroll = 1;  // groups of a thread whose loads are issued together
  // Blocks that share an outer point. Each publishes the result of its part, and joins
  // the results of the parts before it in the order of their numbers.
  int parts = 1;
  int blocks = 0;  // as CudaPoints.blocks
  int whole = 0;   // as CudaPoints.whole
  friend bool operator==(const CudaScans&, const CudaScans&) = default;
};

// Scans of short rows: a block takes `rows` whole rows, which lie side by side,
// into shared memory, element by element. There `lanes` threads share a row, each
// with `run` neighbours, which it holds in registers.
struct CudaShortScans {
  int lanes = 8;  // a power of two
  int rows = 32;
  int run = 17;    // odd, so that runs begin in different banks
  int unroll = 4;  // elements whose loads are issued together
  int blocks = 0;  // as CudaPoints.blocks
  friend bool operator==(const CudaShortScans&,
                         const CudaShortScans&) = default;
};

// Scans down columns; neighbouring columns are adjacent in memory. `across` threads
// take neighbouring columns, and `down` threads take consecutive stretches of one
// column.
struct CudaColumnScans {
  int across = 32;
  int down = 8;
  int unroll = 4;  // points of a column whose loads are issued together
  int parts = 1;   // as CudaScans.parts
  friend bool operator==(const CudaColumnScans&,
                         const CudaColumnScans&) = default;
};

// A kSort along the only reduced axis, with a block for each outer point. A radix sort in
// shared memory, of up to `threads` times `items` elements.
struct CudaSorts {
  int vector = 1;
  int threads = 256;
  int items = 4;   // elements that a thread has in registers
  int blocks = 0;  // as CudaPoints.blocks
  friend bool operator==(const CudaSorts&, const CudaSorts&) = default;
};

// A kSort of which only the first places are asked for, with a block for each outer point.
// The row streams through shared memory: keys that cannot be among the first are dropped,
// and the others are sorted each time the memory is full.
struct CudaSelections {
  int vector = 1;
  int threads = 64;
  int unroll = 1;       // groups whose loads are issued together
  int capacity = 1024;  // keys in shared memory, a power of two
  int places = 1024;    // asked for, at most
  int full = 1024;      // more keys than this are sorted before more are read
  int blocks = 0;       // as CudaPoints.blocks
  friend bool operator==(const CudaSelections&,
                         const CudaSelections&) = default;
};

// A kTally along the only reduced axis, whose stores are all at reduced points: a
// block takes a tile of `threads` times `run` points of an outer point.
struct CudaTallies {
  int threads = 256;  // as many as values at least
  int run = 8;        // points of a thread
  int values = 256;   // different ones
  int alone = 0;      // as CudaPoints.alone
  friend bool operator==(const CudaTallies&, const CudaTallies&) = default;
};

// Sums of integers into few cells of each row (row_counts.h), no reduction: a block
// adds `threads` times `unroll` times `steps` groups of a row in shared memory.
// The vector axis is the last one.
struct CudaCounts {
  int vector = 1;
  int threads = 256;
  int unroll = 4;  // groups whose loads are issued together
  int steps = 4;
  int cells = 256;  // of a row
  friend bool operator==(const CudaCounts&, const CudaCounts&) = default;
};

// A product of matrices of half types whose sums are short (matrix_product.h), by tensor
// cores: a warp takes `tiles` times 16 rows by `strips` times 32 columns, and a block
// those of `down` warps below one another and `across` side by side.
struct CudaProducts {
  int tiles = 2;
  int strips = 2;
  int down = 2;
  int across = 2;
  int whole = 0;  // as CudaPoints.whole
  friend bool operator==(const CudaProducts&, const CudaProducts&) = default;
};

// One thread for each outer point; reduced axes are plain loops. Float sums and products
// are doubles.
struct CudaSerial {
  int threads = 256;
  int blocks = 0;  // as CudaPoints.blocks
  friend bool operator==(const CudaSerial&, const CudaSerial&) = default;
};

// Attention, or a part of its gradient (flash_kernel.h): `sides` warps take `tiles`
// times 16 rows, a block those of `warps` warps, and it walks over the others, `columns`
// of them at a time, while the next ones are being copied to shared memory.
struct CudaFlash {
  int warps = 4;
  int tiles = 1;
  int columns = 64;  // a multiple of 16 times `sides`
  // For the gradients of keys and values, which for wide heads do not fit in a warp's
  // registers: how many warps share the same rows. Each of them computes the weights of
  // a part of the columns, which all read from shared memory, and accumulates a part of
  // the width of both gradients.
  int sides = 1;  // divides `warps`
  // 1: a warp keeps its rows of the factors in registers. Else it reads them from
  // shared memory for each block of columns.
  int held = 0;
  friend bool operator==(const CudaFlash&, const CudaFlash&) = default;
};

// --- CPU. An item is what one thread does without a break; items are fixed by
// shapes, so no result depends on the number of threads. A thread takes items of
// `grain` points together, or more.
inline constexpr int kCpuGrain = 16384;

// No reduction; an item is `block` elements of the last axis.
struct CpuPoints {
  int block = 4096;
  // 1: vectors whose range masks all hold have a body of their own, without masks
  // (vector_masks.h).
  int interior = 0;
  int grain = kCpuGrain;
  friend bool operator==(const CpuPoints&, const CpuPoints&) = default;
};

// No reduction; an item is `rows` of `axis` by `columns` of the last axis.
struct CpuTiles {
  int axis = 0;
  int rows = 64;
  int columns = 64;
  int grain = kCpuGrain;
  friend bool operator==(const CpuTiles&, const CpuTiles&) = default;
};

// Vectors run along the last reduced axis; an item is one outer point.
struct CpuRows {
  int accumulators = 2;  // vectors that are reduced side by side
  // Reduced points after which a float sum begins anew, so that a lane adds some
  // hundred of them at most. A shorter sum is one block.
  int block = 4096;
  int grain = kCpuGrain;
  friend bool operator==(const CpuRows&, const CpuRows&) = default;
};

// Scans along contiguous elements, without other reductions: vectors run along the
// only reduced axis, each from what the one before left; an item is one outer
// point.
struct CpuScans {
  int grain = kCpuGrain;
  friend bool operator==(const CpuScans&, const CpuScans&) = default;
};

// Vectors run along the last outer axis; an item is `strip` of them.
struct CpuColumns {
  int strip = 4;
  int block = 256;  // as CpuRows.block, down a column
  // Vectors of a strip that are written out, so that their accumulators stay in
  // registers; 1: a loop over them.
  int unroll = 1;
  int grain = kCpuGrain;
  friend bool operator==(const CpuColumns&, const CpuColumns&) = default;
};

using KernelVariant =
    std::variant<Unmapped, CudaPoints, CudaTiles, CudaRows, CudaColumns,
                 CudaScans, CudaShortScans, CudaColumnScans, CudaSorts,
                 CudaSelections, CudaTallies, CudaCounts, CudaProducts,
                 CudaSerial, CudaFlash, CpuPoints, CpuTiles, CpuRows,
                 CpuColumns, CpuScans>;

// One number of a variant, by name: what the printer, the parser and the
// fingerprint walk.
struct VariantField {
  absl::string_view name;
  int* value;
};

// "cuda rows"; "unmapped".
absl::string_view VariantName(const KernelVariant& variant);
// The variant of that name with its defaults; Unmapped for an unknown one.
KernelVariant VariantFromName(absl::string_view name);
// All names, in the order of the alternatives.
absl::Span<const absl::string_view> VariantNames();
// In the order of the text. The pointers live as long as `variant` does.
std::vector<VariantField> FieldsOf(KernelVariant& variant);
// Whether the schedule sets a field of that name as the others and the nest have it
// (finish_variant.h), so that a choice among variants does not name it.
bool FollowsFromOthers(absl::string_view field);

// "cuda rows vector 8 lanes 128 rows 1 held 4 ...".
std::string ToText(const KernelVariant& variant);

// Threads of a block; 1 for a variant of the CPU.
int ThreadsOf(const KernelVariant& variant);
// Outer points that a block works on at a time, or that an item has (CPU).
int PointsOfBlock(const KernelVariant& variant);
// Blocks that share an outer point. 1 for variants that do not share them, and for
// CudaTallies, where the number depends on sizes.
int PartsOf(const KernelVariant& variant);
// Whether each block has its own part of the grid, in a variant whose blocks could
// also take turns: its `blocks` is 0.
bool CoversAllPoints(const KernelVariant& variant);
// Whether blocks of a kernel join their results through a workspace.
bool HasWorkspace(const KernelVariant& variant);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_VARIANT_H_
