#include "core/schedule/plan_io.h"

#include "core/base/file.h"
#include "core/base/philox.h"
#include "core/schedule/random_plan.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(PlanIoTest, RoundTrip) {
  for (int i = 0; i < 50; ++i) {
    RandomStream stream(31, i, 0, RandomPurpose::kTest);
    const RandomInstance instance = MakeRandomInstance(stream);
    const std::string path = testing::TempDir() + "/plan.textproto";
    ASSERT_TRUE(WritePlan(path, instance.plan).ok());
    const auto read = ReadPlan(path);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->SerializeAsString(), instance.plan.SerializeAsString());
  }
}

TEST(PlanIoTest, ErrorsNameTheFileAndThePlace) {
  const std::string missing = testing::TempDir() + "/no_such.textproto";
  EXPECT_NE(std::string(ReadPlan(missing).status().message()).find(missing), std::string::npos);
  const std::string broken = testing::TempDir() + "/broken.textproto";
  ASSERT_TRUE(WriteFileAtomically(broken, "strategy: \"gpipe\"\nglobal_batch: many\n").ok());
  const std::string message(ReadPlan(broken).status().message());
  EXPECT_NE(message.find(broken), std::string::npos) << message;
  EXPECT_NE(message.find("line 2, column 15"), std::string::npos) << message;
}

TEST(PlanIoTest, FingerprintsAreStableAndTellContentFromProvenance) {
  ModelProfile profile = UniformProfile();
  const std::string before = Fingerprint(profile);
  EXPECT_EQ(before.size(), 16u);
  EXPECT_EQ(Fingerprint(UniformProfile()), before);
  profile.set_provenance("measured on a Tuesday");
  EXPECT_EQ(Fingerprint(profile), before);
  profile.mutable_components(0)->mutable_layers(0)->mutable_timings(0)->set_forward_ns(1001);
  EXPECT_NE(Fingerprint(profile), before);
  // The empty message's hash is FNV-1a's offset basis: the same on every machine.
  EXPECT_EQ(Fingerprint(ClusterSpec()), "cbf29ce484222325");
}

}  // namespace
}  // namespace dpipe
