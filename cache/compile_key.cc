#include "cache/compile_key.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

std::string TextOf(const KeyPart& part) {
  return part.text.empty() ? "(none)" : part.text;
}

const KeyPart* Find(const std::vector<KeyPart>& parts,
                    const std::string& name) {
  for (const KeyPart& part : parts) {
    if (part.name == name) return &part;
  }
  return nullptr;
}

// Names of the toolchain that fit into a part's text, so that a key can be
// computed again from its parts: a longer one ends with its digest.
std::string ToolchainText(const BuildIdentity& build,
                          const wire::Target& target) {
  const std::string& toolchain = build.ToolchainFor(target);
  if (toolchain.size() <= kMaxPartText) return toolchain;
  const std::string digest = Sha256Of(toolchain).Hex();
  return absl::StrCat(toolchain.substr(0, kMaxPartText - digest.size() - 1),
                      " ", digest);
}

Digest KeyOf(const Digest& request_total, const Digest& compiler,
             absl::string_view toolchain) {
  return Sha256()
      .AddField("kiln compile key 3")
      .Add(request_total.bytes())
      .Add(compiler.bytes())
      .AddField(toolchain)
      .Finish();
}

}  // namespace

Digest CompileKeyDigest(const Digest& request_total, const BuildIdentity& build,
                        const wire::Target& target) {
  return KeyOf(request_total, build.compiler, ToolchainText(build, target));
}

CompileKey MakeCompileKey(const RequestDigest& request,
                          const BuildIdentity& build,
                          const wire::Target& target) {
  CompileKey key = {request.parts,
                    CompileKeyDigest(request.total, build, target)};
  const std::string toolchain = ToolchainText(build, target);
  key.parts.push_back({"compiler", build.compiler, build.compiler_text});
  key.parts.push_back({"toolchain", Sha256Of(toolchain), toolchain});
  return key;
}

std::optional<Digest> DigestOfParts(const std::vector<KeyPart>& parts) {
  if (parts.size() < 2) return std::nullopt;
  const KeyPart& compiler = parts[parts.size() - 2];
  const KeyPart& toolchain = parts.back();
  if (compiler.name != "compiler" || toolchain.name != "toolchain" ||
      Sha256Of(toolchain.text) != toolchain.digest) {
    return std::nullopt;
  }
  const Digest total =
      TotalOf(absl::MakeConstSpan(parts).first(parts.size() - 2));
  return KeyOf(total, compiler.digest, toolchain.text);
}

KeyDifference DiffKeys(const std::vector<KeyPart>& a,
                       const std::vector<KeyPart>& b) {
  KeyDifference difference;
  const auto note = [&difference](const KeyPart& part, const std::string& mine,
                                  const std::string& theirs) {
    if (!difference.part.empty()) return;
    difference.part = part.name;
    difference.detail =
        absl::StrCat(part.name, ": ", mine, " against ", theirs);
    if (mine == theirs) {
      absl::StrAppend(&difference.detail, " (contents differ)");
    }
  };
  for (const KeyPart& part : a) {
    const KeyPart* other = Find(b, part.name);
    if (other == nullptr) {
      note(part, TextOf(part), "no such part");
    } else if (!(part == *other)) {
      note(part, TextOf(part), TextOf(*other));
    } else {
      ++difference.parts_equal;
    }
  }
  for (const KeyPart& part : b) {
    if (Find(a, part.name) == nullptr) {
      note(part, "no such part", TextOf(part));
    }
  }
  return difference;
}

}  // namespace kiln
