#include "core/report/page/packed_fold.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(PackedFoldTest, HoldsItsInsideAndIsMuchShorter) {
  std::string html;
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&html, "<p>box ", i, " – ✓</p>\n");
  const std::string page = "<main>" + PackedFold("a < b", html) + "</main>";
  EXPECT_THAT(page, HasSubstr("<summary>a &lt; b</summary>"));
  EXPECT_THAT(page, Not(HasSubstr("box")));
  EXPECT_LT(page.size(), html.size() / 4);
  const auto unpacked = UnpackFolds(page);
  ASSERT_TRUE(unpacked.ok()) << unpacked.status();
  EXPECT_EQ(*unpacked, "<main><details class=\"packed\"><summary>a &lt; b</summary>" + html +
                           "</details>\n</main>");
}

TEST(PackedFoldTest, EveryFoldOfAPageIsUnpacked) {
  const std::string page = "1" + PackedFold("x", "one") + "2" + PackedFold("y", "") + "3";
  const std::string unpacked = *UnpackFolds(page);
  EXPECT_THAT(unpacked, HasSubstr("</summary>one</details>"));
  EXPECT_THAT(unpacked, HasSubstr("</summary></details>"));
  EXPECT_EQ(*UnpackFolds("no fold"), "no fold");
}

TEST(PackedFoldTest, ADamagedOneIsRefused) {
  const std::string page = PackedFold("x", "some text that is packed");
  const std::string start = "application/gzip\">";
  const auto status_of = [&](const std::string& instead) {
    return UnpackFolds(absl::StrReplaceAll(page, {{start, start + instead}})).status().code();
  };
  EXPECT_EQ(status_of("?"), absl::StatusCode::kInvalidArgument) << "not base64";
  EXPECT_EQ(status_of("AAAA"), absl::StatusCode::kInvalidArgument) << "not gzip";
}

}  // namespace
}  // namespace dpipe::report
