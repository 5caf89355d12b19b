#include "data/tars/shard_pattern.h"

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ErrorOf(const std::string& pattern) {
  const auto names = ExpandBraces(pattern);
  return names.ok() ? "no error" : std::string(names.status().message());
}

TEST(ShardPatternTest, BracesExpandAsInAShell) {
  EXPECT_THAT(ExpandBraces("a.tar").value(), ElementsAre("a.tar"));
  EXPECT_THAT(ExpandBraces("s-{08..11}.tar").value(),
              ElementsAre("s-08.tar", "s-09.tar", "s-10.tar", "s-11.tar"));
  EXPECT_THAT(ExpandBraces("{a,b}{0..1}").value(), ElementsAre("a0", "a1", "b0", "b1"));
  EXPECT_THAT(ExpandBraces("x{,y{1,2}}").value(), ElementsAre("x", "xy1", "xy2"));
  EXPECT_EQ(ExpandBraces("{000..999}")->size(), 1000u);
}

TEST(ShardPatternTest, BadPatternsAreNamed) {
  EXPECT_THAT(ErrorOf("a{0..1"), HasSubstr("a{0..1: unmatched brace"));
  EXPECT_THAT(ErrorOf("a}b{"), HasSubstr("unmatched brace"));
  EXPECT_THAT(ErrorOf("{5..4}"), HasSubstr("{5..4} is reversed"));
  EXPECT_THAT(ErrorOf("{0..999999999}"), HasSubstr("more than 100000 names"));
  EXPECT_THAT(ErrorOf("{0..999}{0..999}"), HasSubstr("more than 100000 names"));
  EXPECT_THAT(ErrorOf(std::string(5000, '{')), HasSubstr("a pattern of 5000 bytes"));
}

TEST(ShardPatternTest, FindsFilesInOrder) {
  const ScratchFolder scratch;
  const std::string& folder = scratch.path();
  for (const char* name : {"b.tar", "a.tar", "c.txt"}) {
    ASSERT_TRUE(WriteFileAtomically(scratch.File(name), "x").ok());
  }
  EXPECT_THAT(FindShards(folder + "/*.tar").value(),
              ElementsAre(folder + "/a.tar", folder + "/b.tar"));
  EXPECT_THAT(FindShards(folder + "/{b,a}.tar").value(),
              ElementsAre(folder + "/b.tar", folder + "/a.tar"));
  EXPECT_THAT(std::string(FindShards(folder + "/{a,d}.tar").status().message()),
              HasSubstr("/d.tar: no such file"));
  EXPECT_EQ(FindShards(folder + "/*.zip").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace dpipe
