#include "core/proto/profile_text.h"

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

constexpr char kText[] = R"(# proto-file: core/proto/profile.proto
# proto-message: dpipe.ModelProfile
model: "m" device: "d" frozen_quantum: 2 self_conditioning_probability: 0.5
provenance: "said \"so\"\nhere"
components {
  name: "c" is_backbone: true load_ns_per_sample: 7
  layers { name: "a" kind: FROZEN
    timings: [{ local_batch: 1 forward_ns: 5 }, { local_batch: 2 forward_ns: 9 input_grad_ns: 3 }] }
  layers { name: "b" kind: TRAINABLE parameter_bytes: 4 }
  values { name: "v" bytes_per_sample: 8 producer_layer: -1 consumer_layers: [0, 1] }
  values { name: "w" producer_layer: 1 is_output: true }
}
components {
  name: "e"
}
)";

TEST(ProfileTextTest, TwoLinesPerLayerAndOnePerValue) {
  ModelProfile profile;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kText, &profile));
  ASSERT_EQ(profile.components(0).layers(0).timings_size(), 2);
  EXPECT_EQ(ProfileText(profile), kText);
}

TEST(ProfileTextTest, EmptyProfile) {
  ModelProfile profile;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(ProfileText(profile), &profile));
  EXPECT_EQ(profile.SerializeAsString(), "");
}

}  // namespace
}  // namespace dpipe
