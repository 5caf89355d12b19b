#include "core/base/text/shell_quote.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(ShellQuoteTest, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(ShellCommand({"--lr=1e-3", "--out=/a/b_c"}), "--lr=1e-3 --out=/a/b_c");
  EXPECT_EQ(ShellCommand({"--data=my images", "--samples.prompts=a|b", ""}),
            "'--data=my images' '--samples.prompts=a|b' ''");
  EXPECT_EQ(ShellCommand({"it's"}), "'it'\\''s'");
}

}  // namespace
}  // namespace dpipe
