#include "proto/key/request_digest.h"

#include <gtest/gtest.h>

#include "proto/base/status.h"
#include "tests/proto/key/sample_graph.h"

namespace kiln {
namespace {

CanonicalRequest Canonical(const wire::CompileRequest& request) {
  auto canonical = CanonicalizeRequest(request);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  return canonical.ok() ? *std::move(canonical) : CanonicalRequest();
}

Digest KeyOf(const wire::CompileRequest& request) {
  return Canonical(request).digest.total;
}

// Gives a field of any kind a value that is not its default.
void SetToOther(const google::protobuf::FieldDescriptor& field,
                google::protobuf::Message& message) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  ASSERT_FALSE(field.is_repeated()) << field.name() << ": say here how";
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(&message, &field, true);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.SetUInt32(&message, &field, 7);
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetInt32(&message, &field, 7);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.SetUInt64(&message, &field, 7);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetInt64(&message, &field, 7);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.SetDouble(&message, &field, 7);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.SetFloat(&message, &field, 7);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.SetEnumValue(&message, &field, 1);
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.SetString(&message, &field, "other");
    case FieldDescriptor::CPPTYPE_MESSAGE:
      reflection.MutableMessage(&message, &field);
      return;
  }
}

TEST(RequestDigest, EveryArtifactOptionChangesItAndNoDiagnosticDoes) {
  const wire::CompileRequest base = SampleRequest();
  const auto* artifact = wire::ArtifactOptions::descriptor();
  for (int i = 0; i < artifact->field_count(); ++i) {
    wire::CompileRequest other = base;
    SetToOther(*artifact->field(i),
               *other.mutable_options()->mutable_artifact());
    EXPECT_NE(KeyOf(other), KeyOf(base)) << artifact->field(i)->name();
  }
  const auto* diagnostic = wire::DiagnosticOptions::descriptor();
  for (int i = 0; i < diagnostic->field_count(); ++i) {
    wire::CompileRequest other = base;
    SetToOther(*diagnostic->field(i),
               *other.mutable_options()->mutable_diagnostic());
    EXPECT_EQ(KeyOf(other), KeyOf(base)) << diagnostic->field(i)->name();
  }
}

TEST(RequestDigest, EachPartStandsUnderItsName) {
  const CanonicalRequest base = Canonical(SampleRequest());
  std::vector<std::string> names;
  for (const KeyPart& part : base.digest.parts) names.push_back(part.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"schema", "namespace", "graph", "target",
                                      "options", "plugins", "hints"}));

  const auto differing = [&base](const wire::CompileRequest& request) {
    std::string different;
    const CanonicalRequest other = Canonical(request);
    EXPECT_NE(other.digest.total, base.digest.total);
    for (size_t i = 0; i < base.digest.parts.size(); ++i) {
      if (other.digest.parts[i].digest != base.digest.parts[i].digest) {
        different += base.digest.parts[i].name + " ";
      }
    }
    return different;
  };
  wire::CompileRequest request = SampleRequest();
  request.mutable_graph()->mutable_nodes(0)->set_op("aten.sub.Tensor");
  EXPECT_EQ(differing(request), "graph ");
  request = SampleRequest();
  request.mutable_target()->mutable_cpu()->set_avx512_bf16(true);
  EXPECT_EQ(differing(request), "target ");
  request = SampleRequest();
  request.set_cache_namespace("team-a");
  EXPECT_EQ(differing(request), "namespace ");
  request = SampleRequest();
  request.mutable_graph()->mutable_symbols(1)->set_hint(1000);
  EXPECT_EQ(differing(request), "hints ");
}

TEST(RequestDigest, HintsOfOneClassShareAKeyAndKeepTheirValues) {
  wire::CompileRequest nine = SampleRequest();
  nine.mutable_graph()->mutable_symbols(1)->set_hint(9);
  EXPECT_EQ(KeyOf(nine), KeyOf(SampleRequest()));
  EXPECT_EQ(Canonical(nine).values, (std::vector<int64_t>{9}));
  EXPECT_EQ(Canonical(nine).request.graph().symbols(0).hint(), 16);
}

TEST(RequestDigest, NamespacesAreShortWordsAndTheEmptyOneHasAName) {
  EXPECT_EQ(Canonical(SampleRequest()).request.cache_namespace(), "default");
  wire::CompileRequest named = SampleRequest();
  named.set_cache_namespace("default");
  EXPECT_EQ(KeyOf(named), KeyOf(SampleRequest()));
  for (const std::string& name :
       {std::string("Team"), std::string("../a"), std::string("a b"),
        std::string(".a"), std::string("a\nb"), std::string(64, 'a')}) {
    named.set_cache_namespace(name);
    EXPECT_EQ(ReasonOf(CanonicalizeRequest(named).status()),
              ErrorReason::kBadOption)
        << name;
  }
}

TEST(RequestDigest, TheCallersDriverAndUrgencyAreNotInIt) {
  wire::CompileRequest request = SampleRequest();
  request.set_driver_cuda_version(12080);
  request.set_urgency(wire::URGENCY_PREWARM);
  EXPECT_EQ(KeyOf(request), KeyOf(SampleRequest()));
}

TEST(RequestDigest, TextsAreBounded) {
  wire::CompileRequest request = SampleRequest();
  wire::ArtifactOptions& options =
      *request.mutable_options()->mutable_artifact();
  options.set_cache_tag(std::string(kMaxCacheTag, 'x'));
  for (const KeyPart& part : Canonical(request).digest.parts)
    EXPECT_LE(part.text.size(), kMaxPartText) << part.name;
  options.set_cache_tag(std::string(kMaxCacheTag + 1, 'x'));
  EXPECT_EQ(ReasonOf(CanonicalizeRequest(request).status()),
            ErrorReason::kBadOption);
}

TEST(RequestDigest, GuardsFollowTheirSymbolsAndChangeTheJobAlone) {
  wire::CompileRequest request = SampleRequest();
  wire::SymGuard* used = request.mutable_forbidden()->add_symbols();
  *used->mutable_condition() = SymbolExpr(1);
  wire::SymGuard* unused = request.mutable_forbidden()->add_symbols();
  *unused->mutable_condition() = SymbolExpr(0);
  const CanonicalRequest canonical = Canonical(request);
  ASSERT_EQ(canonical.request.forbidden().symbols_size(), 1);
  EXPECT_EQ(
      canonical.request.forbidden().symbols(0).condition().code(0).value(), 0);
  const CanonicalRequest plain = Canonical(SampleRequest());
  EXPECT_EQ(canonical.digest.total, plain.digest.total);
  EXPECT_NE(canonical.digest.job, plain.digest.job);
}

TEST(RequestDigest, ForbiddenGuardsAreASetWithoutWords) {
  const auto forbid = [](wire::CompileRequest& request, int64_t value,
                         const char* origin) {
    wire::SymGuard& guard = *request.mutable_forbidden()->add_symbols();
    *guard.mutable_condition() = SymbolExpr(1);
    wire::SymInstruction& number = *guard.mutable_condition()->add_code();
    number.set_op(wire::SYM_OP_CONSTANT);
    number.set_value(value);
    guard.mutable_condition()->add_code()->set_op(wire::SYM_OP_LT);
    guard.set_origin(origin);
  };
  wire::CompileRequest a = SampleRequest();
  forbid(a, 3, "mine");
  forbid(a, 5, "mine");
  wire::CompileRequest b = SampleRequest();
  for (const int64_t value : {5, 3, 5}) forbid(b, value, "yours");
  EXPECT_EQ(Canonical(a).digest.job, Canonical(b).digest.job);
  EXPECT_EQ(Canonical(a).request.SerializeAsString(),
            Canonical(b).request.SerializeAsString());
}

TEST(RequestDigest, WhoForbidsIsPlannedForByItsSizesAndKeepsItsKey) {
  wire::CompileRequest nine = SampleRequest();
  nine.mutable_graph()->mutable_symbols(1)->set_hint(9);
  const CanonicalRequest by_classes = Canonical(nine);
  EXPECT_EQ(by_classes.decided_by, DecideBy::kClasses);
  *nine.mutable_forbidden()->add_symbols()->mutable_condition() = SymbolExpr(1);
  wire::CompileRequest ten = nine;
  ten.mutable_graph()->mutable_symbols(1)->set_hint(10);
  const CanonicalRequest by_sizes = Canonical(nine);
  EXPECT_EQ(by_sizes.decided_by, DecideBy::kSizes);
  EXPECT_EQ(by_sizes.request.graph().symbols(0).hint(), 9);
  EXPECT_EQ(by_sizes.digest.total, by_classes.digest.total);
  EXPECT_EQ(Canonical(ten).digest.total, by_sizes.digest.total);
  EXPECT_NE(Canonical(ten).digest.job, by_sizes.digest.job);
}

TEST(RequestDigest, AssumptionsAreCheckedAndReachNothing) {
  wire::CompileRequest assuming = SampleRequest();
  wire::SymGuard& guard = *assuming.mutable_assumptions()->add_symbols();
  *guard.mutable_condition() = SymbolExpr(1);
  guard.set_origin("mine");
  EXPECT_EQ(Canonical(assuming).digest.job,
            Canonical(SampleRequest()).digest.job);
  EXPECT_EQ(Canonical(assuming).request.SerializeAsString(),
            Canonical(SampleRequest()).request.SerializeAsString());
}

TEST(RequestDigest, UnknownTargetsPluginsAndOptionsAreRefused) {
  wire::CompileRequest request = SampleRequest();
  request.clear_target();
  EXPECT_EQ(ReasonOf(CanonicalizeRequest(request).status()),
            ErrorReason::kBadTarget);
  request.mutable_target()->mutable_cuda()->set_arch("sm_42");
  EXPECT_EQ(ReasonOf(CanonicalizeRequest(request).status()),
            ErrorReason::kBadTarget);
  request.mutable_target()->mutable_cpu()->set_level("pentium");
  EXPECT_EQ(ReasonOf(CanonicalizeRequest(request).status()),
            ErrorReason::kBadTarget);
  request = SampleRequest();
  request.add_plugins("mine");
  EXPECT_EQ(ReasonOf(CanonicalizeRequest(request).status()),
            ErrorReason::kUnsupportedOp);
  request = SampleRequest();
  wire::ArtifactOptions* options =
      request.mutable_options()->mutable_artifact();
  options->GetReflection()->MutableUnknownFields(options)->AddVarint(99, 1);
  EXPECT_EQ(ReasonOf(CanonicalizeRequest(request).status()),
            ErrorReason::kBadOption);
  request = SampleRequest();
  *request.mutable_assumptions()->add_symbols()->mutable_condition() =
      SymbolExpr(9);
  EXPECT_EQ(ReasonOf(CanonicalizeRequest(request).status()),
            ErrorReason::kMalformedGraph);
}

TEST(TargetText, NamesTheDeviceFirst) {
  wire::Target target;
  target.mutable_cuda()->set_arch("sm_90");
  EXPECT_EQ(TargetText(target), "cuda sm_90");
  target.mutable_cpu()->set_level("x86-64-v4");
  target.mutable_cpu()->set_avx512_bf16(true);
  EXPECT_EQ(TargetText(target), "cpu x86-64-v4 avx512_bf16");
}

}  // namespace
}  // namespace kiln
