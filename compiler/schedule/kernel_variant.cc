#include "compiler/schedule/kernel_variant.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"

namespace kiln {

namespace {

constexpr absl::string_view kNames[] = {
    "unmapped",      "cuda points",     "cuda tiles",       "cuda rows",
    "cuda columns",  "cuda scans",      "cuda short scans", "cuda column scans",
    "cuda sorts",    "cuda selections", "cuda tallies",     "cuda counts",
    "cuda products", "cuda serial",     "cuda flash",       "cpu points",
    "cpu tiles",     "cpu rows",        "cpu columns",      "cpu scans"};
static_assert(std::size(kNames) == std::variant_size_v<KernelVariant>);

std::vector<VariantField> Fields(Unmapped&) { return {}; }
std::vector<VariantField> Fields(CudaPoints& v) {
  return {{"vector", &v.vector}, {"unroll", &v.unroll}, {"threads", &v.threads},
          {"peel", &v.peel},     {"blocks", &v.blocks}, {"alone", &v.alone},
          {"whole", &v.whole}};
}
std::vector<VariantField> Fields(CudaTiles& v) {
  return {{"axis", &v.axis},     {"edge", &v.edge},     {"depth", &v.depth},
          {"vector", &v.vector}, {"across", &v.across}, {"peel", &v.peel},
          {"whole", &v.whole}};
}
std::vector<VariantField> Fields(CudaRows& v) {
  return {{"vector", &v.vector},
          {"lanes", &v.lanes},
          {"rows", &v.rows},
          {"held", &v.held},
          {"hold_costly", &v.hold_costly},
          {"unroll", &v.unroll},
          {"parts", &v.parts},
          {"peel", &v.peel},
          {"stages", &v.stages},
          {"stretch", &v.stretch},
          {"cluster", &v.cluster},
          {"blocks", &v.blocks},
          {"alone", &v.alone},
          {"whole", &v.whole},
          {"floats", &v.floats},
          {"once", &v.once},
          {"branch", &v.branch},
          {"joined", &v.joined}};
}
std::vector<VariantField> Fields(CudaColumns& v) {
  return {{"vector", &v.vector}, {"across", &v.across}, {"down", &v.down},
          {"unroll", &v.unroll}, {"parts", &v.parts},   {"peel", &v.peel},
          {"whole", &v.whole},   {"floats", &v.floats}};
}
std::vector<VariantField> Fields(CudaScans& v) {
  return {{"vector", &v.vector}, {"lanes", &v.lanes},   {"rows", &v.rows},
          {"peel", &v.peel},     {"unroll", &v.unroll}, {"parts", &v.parts},
          {"blocks", &v.blocks}, {"whole", &v.whole}};
}
std::vector<VariantField> Fields(CudaShortScans& v) {
  return {{"lanes", &v.lanes},
          {"rows", &v.rows},
          {"run", &v.run},
          {"unroll", &v.unroll},
          {"blocks", &v.blocks}};
}
std::vector<VariantField> Fields(CudaColumnScans& v) {
  return {{"across", &v.across},
          {"down", &v.down},
          {"unroll", &v.unroll},
          {"parts", &v.parts}};
}
std::vector<VariantField> Fields(CudaSorts& v) {
  return {{"vector", &v.vector},
          {"threads", &v.threads},
          {"items", &v.items},
          {"blocks", &v.blocks}};
}
std::vector<VariantField> Fields(CudaSelections& v) {
  return {{"vector", &v.vector}, {"threads", &v.threads},
          {"unroll", &v.unroll}, {"capacity", &v.capacity},
          {"places", &v.places}, {"full", &v.full},
          {"blocks", &v.blocks}};
}
std::vector<VariantField> Fields(CudaTallies& v) {
  return {{"threads", &v.threads},
          {"run", &v.run},
          {"values", &v.values},
          {"alone", &v.alone}};
}
std::vector<VariantField> Fields(CudaCounts& v) {
  return {{"vector", &v.vector},
          {"threads", &v.threads},
          {"unroll", &v.unroll},
          {"steps", &v.steps},
          {"cells", &v.cells}};
}
std::vector<VariantField> Fields(CudaProducts& v) {
  return {{"tiles", &v.tiles},
          {"strips", &v.strips},
          {"down", &v.down},
          {"across", &v.across},
          {"whole", &v.whole}};
}
std::vector<VariantField> Fields(CudaSerial& v) {
  return {{"threads", &v.threads}, {"blocks", &v.blocks}};
}
std::vector<VariantField> Fields(CudaFlash& v) {
  return {{"warps", &v.warps},
          {"tiles", &v.tiles},
          {"columns", &v.columns},
          {"sides", &v.sides},
          {"held", &v.held}};
}
std::vector<VariantField> Fields(CpuPoints& v) {
  return {{"block", &v.block}, {"interior", &v.interior}, {"grain", &v.grain}};
}
std::vector<VariantField> Fields(CpuTiles& v) {
  return {{"axis", &v.axis},
          {"rows", &v.rows},
          {"columns", &v.columns},
          {"grain", &v.grain}};
}
std::vector<VariantField> Fields(CpuRows& v) {
  return {{"accumulators", &v.accumulators},
          {"block", &v.block},
          {"grain", &v.grain}};
}
std::vector<VariantField> Fields(CpuScans& v) { return {{"grain", &v.grain}}; }
std::vector<VariantField> Fields(CpuColumns& v) {
  return {{"strip", &v.strip},
          {"block", &v.block},
          {"unroll", &v.unroll},
          {"grain", &v.grain}};
}

constexpr absl::string_view kFollowing[] = {
    "blocks", "alone", "whole", "floats", "once", "branch", "joined"};

template <size_t... Is>
KernelVariant MakeVariant(size_t index, std::index_sequence<Is...>) {
  KernelVariant variant;
  ((Is == index ? (void)variant.emplace<Is>() : (void)0), ...);
  return variant;
}

}  // namespace

absl::string_view VariantName(const KernelVariant& variant) {
  return kNames[variant.index()];
}

KernelVariant VariantFromName(absl::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] != name) continue;
    return MakeVariant(
        i, std::make_index_sequence<std::variant_size_v<KernelVariant>>());
  }
  return Unmapped{};
}

absl::Span<const absl::string_view> VariantNames() { return kNames; }

std::vector<VariantField> FieldsOf(KernelVariant& variant) {
  return std::visit([](auto& v) { return Fields(v); }, variant);
}

bool FollowsFromOthers(absl::string_view field) {
  return std::find(std::begin(kFollowing), std::end(kFollowing), field) !=
         std::end(kFollowing);
}

std::string ToText(const KernelVariant& variant) {
  std::string out(VariantName(variant));
  KernelVariant copy = variant;
  for (const VariantField& field : FieldsOf(copy)) {
    absl::StrAppend(&out, " ", field.name, " ", *field.value);
  }
  return out;
}

int ThreadsOf(const KernelVariant& variant) {
  if (const auto* v = std::get_if<CudaPoints>(&variant)) return v->threads;
  if (std::holds_alternative<CudaTiles>(variant)) return kTileThreads;
  if (const auto* v = std::get_if<CudaRows>(&variant)) {
    return v->lanes * v->rows;
  }
  if (const auto* v = std::get_if<CudaColumns>(&variant)) {
    return (v->across + v->peel) * v->down;
  }
  if (const auto* v = std::get_if<CudaScans>(&variant)) {
    return v->lanes * v->rows;
  }
  if (const auto* v = std::get_if<CudaShortScans>(&variant)) {
    return v->lanes * v->rows;
  }
  if (const auto* v = std::get_if<CudaColumnScans>(&variant)) {
    return v->across * v->down;
  }
  if (const auto* v = std::get_if<CudaSorts>(&variant)) return v->threads;
  if (const auto* v = std::get_if<CudaSelections>(&variant)) return v->threads;
  if (const auto* v = std::get_if<CudaTallies>(&variant)) return v->threads;
  if (const auto* v = std::get_if<CudaCounts>(&variant)) return v->threads;
  if (const auto* v = std::get_if<CudaProducts>(&variant))
    return v->down * v->across * 32;
  if (const auto* v = std::get_if<CudaSerial>(&variant)) return v->threads;
  if (const auto* v = std::get_if<CudaFlash>(&variant)) return v->warps * 32;
  return 1;
}

namespace {

int BlockPoints(const Unmapped&) { return 1; }
int BlockPoints(const CudaPoints& v) { return v.vector * v.unroll * v.threads; }
int BlockPoints(const CudaTiles& v) { return v.edge * v.depth; }
int BlockPoints(const CudaRows& v) { return v.rows; }
int BlockPoints(const CudaColumns& v) { return v.vector * v.across; }
int BlockPoints(const CudaScans& v) { return v.rows; }
int BlockPoints(const CudaShortScans& v) { return v.rows; }
int BlockPoints(const CudaColumnScans& v) { return v.across; }
int BlockPoints(const CudaSorts&) { return 1; }
int BlockPoints(const CudaSelections&) { return 1; }
int BlockPoints(const CudaTallies&) { return 1; }
int BlockPoints(const CudaCounts& v) {
  return v.vector * v.threads * v.unroll * v.steps;
}
int BlockPoints(const CudaProducts& v) {
  return v.tiles * 16 * v.down * v.strips * 32 * v.across;
}
int BlockPoints(const CudaSerial& v) { return v.threads; }
int BlockPoints(const CudaFlash& v) { return v.warps / v.sides * v.tiles * 16; }
int BlockPoints(const CpuPoints& v) { return v.block; }
int BlockPoints(const CpuTiles& v) { return v.rows * v.columns; }
int BlockPoints(const CpuRows&) { return 1; }
int BlockPoints(const CpuColumns& v) { return v.strip; }
int BlockPoints(const CpuScans&) { return 1; }

}  // namespace

int PointsOfBlock(const KernelVariant& variant) {
  return std::visit([](const auto& v) { return BlockPoints(v); }, variant);
}

int PartsOf(const KernelVariant& variant) {
  if (const auto* v = std::get_if<CudaRows>(&variant)) return v->parts;
  if (const auto* v = std::get_if<CudaColumns>(&variant)) return v->parts;
  if (const auto* v = std::get_if<CudaScans>(&variant)) return v->parts;
  if (const auto* v = std::get_if<CudaColumnScans>(&variant)) return v->parts;
  return 1;
}

bool CoversAllPoints(const KernelVariant& variant) {
  return std::visit(
      [](const auto& v) {
        if constexpr (requires { v.blocks; }) return v.blocks == 0;
        return false;
      },
      variant);
}

bool HasWorkspace(const KernelVariant& variant) {
  return PartsOf(variant) > 1 || std::holds_alternative<CudaTallies>(variant);
}

}  // namespace kiln
