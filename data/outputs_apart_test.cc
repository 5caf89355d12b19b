#include "data/outputs_apart.h"

#include <filesystem>
#include <string>

#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class OutputsApartTest : public ::testing::Test {
 protected:
  OutputsApartTest() {
    EXPECT_TRUE(MakeFolder(scratch_.File("data/cats")).ok());
    EXPECT_TRUE(MakeFolder(scratch_.File("shards")).ok());
    for (const char* name : {"shards/x-0.tar", "shards/x-1.tar"}) {
      EXPECT_TRUE(WriteFileAtomically(scratch_.File(name), "").ok());
    }
  }
  std::string Error(const std::string& output, const std::string& data) {
    const NamedPath out = {"--out=", scratch_.File(output)}, in = {"--data=", scratch_.File(data)};
    absl::Status status = CheckNotInData(out, in);
    status.Update(CheckHasNoData(out, in));
    return std::string(status.message());
  }

  ScratchFolder scratch_;
};

TEST_F(OutputsApartTest, OutputsAreNotInData) {
  EXPECT_EQ(CheckNotInData({"--out=", "/pictures/run"}, {"--data=", "/pictures"}).message(),
            "--out=/pictures/run is inside --data=/pictures: the output would become data; "
            "choose another place for it");
  EXPECT_THAT(Error("data/run", "data"), HasSubstr("would become data"));
  EXPECT_THAT(Error("data", "data"), HasSubstr("would become data"));
  EXPECT_THAT(Error("out/../data/cats/run", "data/"), HasSubstr("would become data"));
  std::filesystem::create_directory_symlink(scratch_.File("data/cats"), scratch_.File("link"));
  EXPECT_THAT(Error("link/run", "data"), HasSubstr("would become data"));
  EXPECT_THAT(Error("data/run", "link/.."), HasSubstr("would become data"));
}

TEST_F(OutputsApartTest, DataIsNotInOutputs) {
  EXPECT_THAT(Error("data", "data/cats"), HasSubstr("replaced or renamed as a whole"));
  EXPECT_THAT(Error("shards", "shards/x-{0..1}.tar"), HasSubstr("replaced or renamed"));
  EXPECT_THAT(Error("shards", "shards/x-?.tar"), HasSubstr("replaced or renamed"));
  EXPECT_THAT(Error("shards/x-1.tar", "shards/*.tar"), HasSubstr("replaced or renamed"));
}

TEST_F(OutputsApartTest, NeighboursAreApart) {
  EXPECT_THAT(Error("run", "data"), IsEmpty());
  EXPECT_THAT(Error("data.run", "data"), IsEmpty());
  EXPECT_THAT(Error("shards/run", "shards/x-{0..1}.tar"), IsEmpty());
  EXPECT_THAT(Error("run", "no/such/{0..9}.tar"), IsEmpty());
  EXPECT_TRUE(CheckNotInData({"--out=", ""}, {"--data=", "/"}).ok());
  EXPECT_TRUE(CheckHasNoData({"--out=", "/"}, {"--data=", ""}).ok());
}

}  // namespace
}  // namespace dpipe
