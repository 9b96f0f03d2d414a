#include "proto/base/assemble.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kiln {
namespace {

wire::TranslationUnit Unit(const std::string& source) {
  wire::TranslationUnit unit;
  unit.set_language(wire::TranslationUnit::LANGUAGE_CPP);
  unit.set_source(source);
  unit.set_digest(UnitDigest(unit).ToBytes());
  return unit;
}

wire::ObjectCode ObjectOf(const wire::TranslationUnit& unit) {
  wire::ObjectCode object;
  object.set_unit_digest(unit.digest());
  object.set_image("image of " + unit.source());
  object.set_log("a path");
  return object;
}

wire::CompilePlan TwoUnits() {
  wire::CompilePlan plan;
  *plan.add_units() = Unit("a");
  *plan.add_units() = Unit("b");
  plan.mutable_plan()->add_kernels()->set_module(1);
  return plan;
}

std::vector<wire::ObjectCode> Objects() {
  return {ObjectOf(Unit("a")), ObjectOf(Unit("b"))};
}

const Digest kKey = Sha256Of("key");
const Digest kRequest = Sha256Of("request");

TEST(AssembleArtifact, ObjectsStandInTheOrderOfTheirUnits) {
  auto objects = Objects();
  const auto straight =
      AssembleArtifact(TwoUnits(), objects, {}, kKey, kRequest);
  std::reverse(objects.begin(), objects.end());
  const auto turned = AssembleArtifact(TwoUnits(), objects, {}, kKey, kRequest);
  ASSERT_TRUE(straight.ok()) << straight.status();
  EXPECT_EQ(*straight, *turned);

  wire::Artifact artifact;
  ASSERT_TRUE(artifact.ParseFromString(*straight));
  EXPECT_EQ(artifact.format_version(), kArtifactFormatVersion);
  EXPECT_EQ(artifact.compile_key(), kKey.ToBytes());
  EXPECT_EQ(artifact.request_digest(), kRequest.ToBytes());
  EXPECT_EQ(artifact.objects(1).image(), "image of b");
  EXPECT_EQ(artifact.objects(0).log(), "");  // logs name files
}

TEST(AssembleArtifact, ObjectsAndUnitsMustMatchOneToOne) {
  const auto assemble = [](wire::CompilePlan plan,
                           std::vector<wire::ObjectCode> objects) {
    return AssembleArtifact(std::move(plan), std::move(objects), {}, kKey,
                            kRequest)
        .status()
        .code();
  };
  EXPECT_EQ(assemble(TwoUnits(), {}), absl::StatusCode::kInternal);
  auto twice = Objects();
  twice.push_back(twice[0]);
  EXPECT_EQ(assemble(TwoUnits(), twice), absl::StatusCode::kInternal);
  auto stranger = Objects();
  stranger.push_back(ObjectOf(Unit("c")));
  EXPECT_EQ(assemble(TwoUnits(), stranger), absl::StatusCode::kInternal);
  auto lying = TwoUnits();
  lying.mutable_units(0)->set_source("other");
  EXPECT_EQ(assemble(lying, Objects()), absl::StatusCode::kInternal);
  auto lost = TwoUnits();
  lost.mutable_plan()->mutable_kernels(0)->set_module(2);
  EXPECT_EQ(assemble(lost, Objects()), absl::StatusCode::kInternal);
}

TEST(InterfaceDigest, SeesWhatInputsAre) {
  wire::LaunchPlan plan;
  wire::PlanInput* input = plan.add_inputs();
  input->mutable_tensor()->set_dtype(wire::DTYPE_FLOAT32);
  input->mutable_tensor()->add_sizes()->set_value(4);
  input->mutable_tensor()->add_strides()->set_value(1);
  const Digest digest = InterfaceDigest(plan);
  const auto changed = [&plan](auto change) {
    wire::LaunchPlan other = plan;
    change(*other.mutable_inputs(0));
    return InterfaceDigest(other);
  };
  using Input = wire::PlanInput;
  EXPECT_EQ(changed([](Input&) {}), digest);
  EXPECT_NE(changed([](Input& i) {
              i.mutable_tensor()->set_dtype(wire::DTYPE_BFLOAT16);
            }),
            digest);
  EXPECT_NE(changed([](Input& i) {
              i.mutable_tensor()->mutable_sizes(0)->set_value(5);
            }),
            digest);
  EXPECT_NE(changed([](Input& i) {
              i.mutable_tensor()->mutable_strides(0)->set_value(2);
            }),
            digest);
  EXPECT_NE(changed([](Input& i) {
              i.mutable_tensor()->add_sizes()->set_value(1);
              i.mutable_tensor()->add_strides()->set_value(1);
            }),
            digest);
  EXPECT_NE(changed([](Input& i) { i.set_alignment_bytes(16); }), digest);
  EXPECT_NE(changed([](Input& i) { i.mutable_scalar()->set_value(4); }),
            digest);
}

TEST(InterfaceDigest, SeesResultsAndMutationsAndNotPlacement) {
  wire::LaunchPlan plan;
  plan.add_inputs();
  wire::PlanBuffer* in = plan.add_buffers();
  in->set_kind(wire::PlanBuffer::KIND_INPUT);
  plan.add_buffers()->set_kind(wire::PlanBuffer::KIND_OUTPUT);
  wire::BufferView* view = plan.add_outputs()->mutable_view();
  view->set_buffer(1);
  view->set_dtype(wire::DTYPE_FLOAT32);
  view->add_sizes()->set_value(4);
  view->add_strides()->set_value(1);
  const Digest digest = InterfaceDigest(plan);

  wire::LaunchPlan placed = plan;
  placed.mutable_arena_bytes()->set_value(512);
  placed.add_buffers()->set_kind(wire::PlanBuffer::KIND_ARENA);
  placed.add_steps();
  EXPECT_EQ(InterfaceDigest(placed), digest);

  wire::LaunchPlan aliased = plan;
  aliased.mutable_outputs(0)->mutable_view()->set_buffer(0);
  EXPECT_NE(InterfaceDigest(aliased), digest);
  wire::LaunchPlan mutated = plan;
  mutated.mutable_inputs(0)->set_mutated(true);
  EXPECT_NE(InterfaceDigest(mutated), digest);
  wire::LaunchPlan strided = plan;
  strided.mutable_outputs(0)->mutable_view()->mutable_strides(0)->set_value(2);
  EXPECT_NE(InterfaceDigest(strided), digest);
}

}  // namespace
}  // namespace kiln
