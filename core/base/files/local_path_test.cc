#include "core/base/files/local_path.h"

#include <filesystem>
#include <string>

#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string Error(const std::string& given, HubKind kind = HubKind::kModel) {
  return std::string(CheckIsLocal("model", given, kind).message());
}

TEST(LocalPathTest, HubNamesComeWithTheDownloadCommand) {
  EXPECT_EQ(Error("runwayml/stable-diffusion-v1-5"),
            "--model=runwayml/stable-diffusion-v1-5: no such path, and nothing is downloaded "
            "automatically; download it first, for example: huggingface-cli download "
            "runwayml/stable-diffusion-v1-5 "
            "--local-dir stable-diffusion-v1-5; then --model=stable-diffusion-v1-5");
  EXPECT_THAT(Error("lambda/pokemon", HubKind::kDataset),
              HasSubstr("download lambda/pokemon --repo-type dataset --local-dir pokemon"));
  EXPECT_THAT(Error("https://huggingface.co/a/b/tree/main"), HasSubstr("download a/b --local-dir"));
}

TEST(LocalPathTest, UrlsAndCommandsAreNotPaths) {
  for (const char* given : {"https://example.org/x-{00..99}.tar", "s3://bucket/x.tar",
                            "pipe:curl -s http://example.org/x.tar"}) {
    EXPECT_THAT(Error(given), AllOf(HasSubstr("nothing is downloaded"),
                                    HasSubstr("give the path on this machine")))
        << given;
  }
  EXPECT_THAT(Error("https://" + std::string(5000, 'x')), SizeIs(::testing::Lt(300)));
}

TEST(LocalPathTest, OtherPathsAreAccepted) {
  const ScratchFolder scratch;
  std::filesystem::current_path(scratch.path());
  ASSERT_TRUE(MakeFolder("mine/model").ok());
  for (const char* given : {"mine/model", "mine/mistyped", "./a/b", "/a/b", "../a", "~/a", "a", "",
                            "a/b/c", "a/", "a b/c", "shards/x-{0..9}.tar"}) {
    EXPECT_EQ(Error(given), "") << given;
  }
}

}  // namespace
}  // namespace dpipe
