#include "core/schedule/file_formats/plan_io.h"

#include "core/base/files/file.h"
#include "core/base/philox.h"
#include "core/schedule/testing/random_plan.h"
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

TEST(PlanIoTest, ErrorsNameFileAndPosition) {
  const std::string missing = testing::TempDir() + "/no_such.textproto";
  EXPECT_NE(std::string(ReadPlan(missing).status().message()).find(missing), std::string::npos);
  const std::string broken = testing::TempDir() + "/broken.textproto";
  ASSERT_TRUE(WriteFileAtomically(broken, "strategy: \"gpipe\"\nglobal_batch: many\n").ok());
  const std::string message(ReadPlan(broken).status().message());
  EXPECT_NE(message.find(broken), std::string::npos) << message;
  EXPECT_NE(message.find("line 2, column 15"), std::string::npos) << message;
}

TEST(PlanIoTest, ReadsFilesFromWindows) {
  ModelProfile profile;
  const absl::Status status = ParseTextProto("\xef\xbb\xbfmodel: \"a\"\r\n", "m", &profile);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(profile.model(), "a");
  const std::string wide("m\0o\0d\0", 6);
  EXPECT_NE(ParseTextProto(wide, "m", &profile).message().find("m is binary, or UTF-16"),
            std::string::npos);
}

TEST(PlanIoTest, ErrorsNameTheField) {
  const struct {
    std::string text, place;
  } cases[] = {
      {"model: 5", "m: line 1, column 8, field model: "},
      {"model: \"a\" # {\nframe: 1", "m: line 2, column 6: "},
      {"model: \"{\"\ncomponents { name: \"a\" }\ncomponents {\n\tlayers { kind: 7.5 } }",
       "m: line 4, column 24, field components[1].layers[0].kind: "},
      {"components { layers { name: 'x' } layers { timings { } timings { forward_ns: \"9\" } } }",
       "field components[0].layers[1].timings[1].forward_ns: "},
      {"components { values { consumer_layers: 1 consumer_layers: 99999999999 } }",
       "field components[0].values[0].consumer_layers[1]: "},
      {"components { values { consumer_layers: [1, x] } }",
       "field components[0].values[0].consumer_layers[1]: "},
      {"components < layers { } speed: 1 >", "field components[0]: "},
      {"dtype: \"bf16\" }", "m: line 1, column 15: "},
      {"dtype: \"bf16\" dtype: \"fp32\"", "\"dtype\""},
      {"components { name: \"a\"", "field components[0]: "}};
  for (const auto& c : cases) {
    ModelProfile profile;
    const absl::Status status = ParseTextProto(c.text, "m", &profile);
    ASSERT_FALSE(status.ok()) << c.text;
    EXPECT_NE(std::string(status.message()).find(c.place), std::string::npos) << status;
  }
}

TEST(PlanIoTest, FingerprintsAreStableAndIgnoreProvenance) {
  ModelProfile profile = UniformProfile();
  const std::string before = Fingerprint(profile);
  EXPECT_EQ(before.size(), 16u);
  EXPECT_EQ(Fingerprint(UniformProfile()), before);
  profile.set_provenance("measured on a Tuesday");
  EXPECT_EQ(Fingerprint(profile), before);
  profile.mutable_components(0)->mutable_layers(0)->mutable_timings(0)->set_forward_ns(1001);
  EXPECT_NE(Fingerprint(profile), before);
  // The hash of an empty message is FNV-1a's offset basis, the same on every machine.
  EXPECT_EQ(Fingerprint(ClusterSpec()), "cbf29ce484222325");
}

}  // namespace
}  // namespace dpipe
