// Damaged profiles, clusters and plans: thousands of random changes to their text. Each is refused
// with a reason that names the source, or is valid and can be used. Nothing crashes.
#include <algorithm>
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/cost/cost_model.h"
#include "core/cost/roofline/modelled_profile.h"
#include "core/cost/testing/fake_profile.h"
#include "core/profile/component_work.h"
#include "core/proto/profile_text.h"
#include "core/schedule/file_formats/plan_io.h"
#include "core/schedule/testing/random_plan.h"
#include "core/schedule/testing/symbolic_run.h"
#include "core/schedule/verification/verify.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "models/diffusion/diffusion_objective.h"
#include "models/diffusion/noise_schedule.h"
#include "models/unet/unet.h"
#include "models/vae/vae.h"

namespace dpipe {
namespace {

constexpr int kMutations = 2000;

int Below(RandomStream& stream, size_t count) {
  return static_cast<int>(stream.NextBelow(static_cast<uint32_t>(std::max<size_t>(count, 1))));
}

// Text that a careless or hostile editor may type.
const std::vector<std::string>& Snippets() {
  static const auto* const snippets =
      new std::vector<std::string>{"-1",
                                   "0",
                                   "1",
                                   "-9223372036854775808",
                                   "9223372036854775807",
                                   "99999999999999999999",
                                   "2147483647",
                                   "1e308",
                                   "-1e308",
                                   "nan",
                                   "inf",
                                   "1e-320",
                                   "{",
                                   "}",
                                   "<",
                                   ">",
                                   "[",
                                   "]",
                                   ":",
                                   "\"",
                                   "'",
                                   "#",
                                   "\n",
                                   "\\",
                                   "true",
                                   "FROZEN",
                                   "TRAINABLE",
                                   "layers { }",
                                   "values { }",
                                   "components { is_backbone: true }",
                                   "device_classes { num_devices: 4 speed: 2 }",
                                   "num_nodes: 2",
                                   "source_component: \"unet\"",
                                   "producer_layer: 3",
                                   "consumer_layers: 0",
                                   "no_such_field: 1",
                                   std::string(1, '\0'),
                                   "\xff\xfe",
                                   "\t"};
  return *snippets;
}

// Returns [begin, end) of a random number in the text, or an empty range if there is none nearby.
std::pair<size_t, size_t> RandomNumber(const std::string& text, RandomStream& stream) {
  const size_t begin = text.find_first_of("0123456789", Below(stream, text.size()));
  if (begin == std::string::npos) return {0, 0};
  return {begin, std::min(text.size(), text.find_first_not_of("0123456789", begin))};
}

void Mutate(RandomStream& stream, std::string* text) {
  const size_t at = Below(stream, text->size());
  switch (stream.NextBelow(20)) {
    case 0:  // another byte
      if (!text->empty()) (*text)[at] = static_cast<char>(stream.NextBelow(256));
      break;
    case 1:  // a part removed
      text->erase(at, Below(stream, 40));
      break;
    case 2:  // a part duplicated
      text->insert(at, text->substr(Below(stream, text->size()), Below(stream, 200)));
      break;
    case 3:  // truncated
      if (stream.NextBelow(8) == 0) text->resize(at);
      break;
    case 4:  // text inserted
      text->insert(at, Snippets()[Below(stream, Snippets().size())]);
      break;
    default: {  // another number, which is likely to be parsed and then to be invalid
      const auto [begin, end] = RandomNumber(*text, stream);
      text->replace(begin, end - begin, Snippets()[Below(stream, 12)]);
      break;
    }
  }
}

nn::Program SmallVaeEncoder() {
  models::VaeConfig config;
  config.block_out_channels = {8, 8};
  config.layers_per_block = 1;
  config.norm_groups = 4;
  return models::BuildVaeEncoder(config, 16, 16).value();
}

// With self-conditioning.
nn::Program SmallUNet() {
  models::UNetConfig config;
  config.in_channels = 8;
  config.further_input = models::FurtherInput::kEstimate;
  config.block_out_channels = {8, 16};
  config.down_has_attention = config.up_has_attention = {false, true};
  config.layers_per_block = 1;
  config.num_heads = {1, 2};
  config.transformer_layers = {1, 1};
  config.cross_attention_dim = 4;
  config.norm_groups = 4;
  auto schedule = diffusion::NoiseSchedule::Create({});
  return models::BuildUNetForTraining(config, {8, 8, 3},
                                      diffusion::DiffusionObjective(*std::move(schedule)))
      .value();
}

// Returns a profile of a U-Net and a VAE encoder with every feature of a profile, but few layers.
std::string SmallProfileText() {
  roofline::ModelWork model;
  model.name = "small";
  model.self_conditioning_probability = 0.5;
  model.components = {WorkOf({"vae_encoder", false, SmallVaeEncoder(), {}}),
                      WorkOf({"unet",
                              true,
                              SmallUNet(),
                              {{"latents", {"vae_encoder", "latents"}}},
                              {"estimate", "prediction"}})};
  ModelProfile profile = roofline::ModelledProfile(model, roofline::Devices().front());
  for (ComponentProfile& component : *profile.mutable_components()) {
    for (LayerProfile& layer : *component.mutable_layers()) {
      layer.mutable_timings()->DeleteSubrange(2, layer.timings_size() - 2);
    }
  }
  return ProfileText(profile);
}

std::string ClusterText() {
  ClusterSpec cluster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(name: "c" num_nodes: 2 devices_per_node: 4 memory_bytes_per_device: 80000000000
         intra_node { latency_ns: 3000 bandwidth_bytes_per_s: 2.4e11 }
         inter_node { latency_ns: 15000 bandwidth_bytes_per_s: 4.5e10 }
         contention_factor: 1.5 collectives_use_compute: true interfaces_per_node: 2
         device_classes { name: "fast" first_rank: 0 num_devices: 4 speed: 2 }
         device_classes { name: "slow" first_rank: 4 num_devices: 2 speed: 0.5 memory_bytes: 9 }
         provenance: "none")",
      &cluster));
  std::string text;
  EXPECT_TRUE(google::protobuf::TextFormat::PrintToString(cluster, &text));
  return text;
}

// Calls many functions of a valid cost model; the results are not checked.
void Query(const CostModel& cost) {
  for (int c = 0; c < cost.num_components(); ++c) {
    const LayerRange all = cost.AllLayers(c);
    cost.Forward(c, all, 1);
    cost.Backward(c, all, 100);
    cost.ParameterBytes(c, all);
    cost.SourcesOf(c, all);
    for (int cut = 0; cut <= cost.num_layers(c); ++cut) cost.ValuesAtCut(c, cut);
  }
  if (cost.num_devices() > 1) cost.Transfer(0, cost.num_devices() - 1, 1000);
  cost.GlobalNorm();
}

struct Counts {
  int unreadable = 0, refused = 0, valid = 0;
};

void Judge(const absl::Status& read, const absl::StatusOr<CostModel>& cost, Counts* counts) {
  if (!read.ok()) {
    ++counts->unreadable;
    EXPECT_EQ(std::string(read.message()).rfind("damaged: line ", 0), 0u) << read;
  } else if (!cost.ok()) {
    ++counts->refused;
    EXPECT_EQ(cost.status().code(), absl::StatusCode::kInvalidArgument) << cost.status();
    EXPECT_FALSE(cost.status().message().empty());
  } else {
    ++counts->valid;
    Query(*cost);
  }
}

// Each outcome must happen often, or the changes test nothing.
void ExpectAllKinds(const Counts& counts) {
  SCOPED_TRACE(std::to_string(counts.unreadable) + " unreadable, " +
               std::to_string(counts.refused) + " refused, " + std::to_string(counts.valid) +
               " valid");
  EXPECT_GT(counts.unreadable, kMutations / 20);
  EXPECT_GT(counts.refused, kMutations / 20);
  EXPECT_GT(counts.valid, kMutations / 20);
}

TEST(InputFuzzTest, Profiles) {
  const std::string original = SmallProfileText();
  Counts counts;
  for (int i = 0; i < kMutations; ++i) {
    RandomStream stream(1, i, 0, RandomPurpose::kTest);
    std::string text = original;
    for (int n = 1 + Below(stream, 3); n > 0; --n) Mutate(stream, &text);
    ModelProfile profile;
    const absl::Status read = ParseTextProto(text, "damaged", &profile);
    Judge(read, CostModel::Create(profile, IdealCluster(4)), &counts);
  }
  ExpectAllKinds(counts);
}

TEST(InputFuzzTest, Clusters) {
  const std::string original = ClusterText();
  const ModelProfile profile = UniformProfile();
  Counts counts;
  for (int i = 0; i < kMutations; ++i) {
    RandomStream stream(2, i, 0, RandomPurpose::kTest);
    std::string text = original;
    for (int n = 1 + Below(stream, 3); n > 0; --n) Mutate(stream, &text);
    ClusterSpec cluster;
    const absl::Status read = ParseTextProto(text, "damaged", &cluster);
    Judge(read, CostModel::Create(profile, cluster), &counts);
  }
  ExpectAllKinds(counts);
}

// A damaged plan is unreadable, refused, or still trains the model that its header describes.
TEST(InputFuzzTest, Plans) {
  int unreadable = 0, refused = 0, accepted = 0;
  for (int i = 0; i < 60; ++i) {
    RandomStream stream(3, i, 0, RandomPurpose::kTest);
    const RandomInstance instance = MakeRandomInstance(stream);
    const CostModel cost = *CostModel::Create(instance.profile, instance.cluster);
    std::string original;
    ASSERT_TRUE(google::protobuf::TextFormat::PrintToString(instance.plan, &original));
    for (int round = 0; round < 30; ++round) {
      std::string text = original;
      Mutate(stream, &text);
      Plan plan;
      const absl::Status read = ParseTextProto(text, "damaged", &plan);
      if (!read.ok()) {
        ++unreadable;
        EXPECT_EQ(std::string(read.message()).rfind("damaged: line ", 0), 0u) << read;
        continue;
      }
      const absl::Status verified = VerifyPlan(plan, cost);
      if (!verified.ok()) {
        ++refused;
        EXPECT_FALSE(verified.message().empty());
        continue;
      }
      ++accepted;
      const auto weights = RunSymbolically(plan, cost, 3);
      ASSERT_TRUE(weights.ok()) << weights.status();
      EXPECT_EQ(*weights, ExpectedWeights(plan, cost, 3));
    }
  }
  EXPECT_GT(unreadable, 50);
  EXPECT_GT(refused, 300);
  EXPECT_GT(accepted, 5);
}

}  // namespace
}  // namespace dpipe
