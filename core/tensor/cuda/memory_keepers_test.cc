#include <string>

#include "core/tensor/cuda/driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::cuda {
namespace {

class Keeper : public MemoryKeeper {
 public:
  Keeper(std::string name, bool more, std::string* asked)
      : name_(std::move(name)), more_(more), asked_(asked) {}
  bool ReleaseUnused() override {
    *asked_ += name_;
    return more_;
  }

 private:
  const std::string name_;
  const bool more_;
  std::string* const asked_;
};

TEST(MemoryKeepersTest, KeepersOfGpuAreAskedInOrder) {
  std::string asked;
  Keeper a("a", true, &asked), b("b", false, &asked), c("c", false, &asked);
  MemoryKeepers keepers;
  EXPECT_FALSE(keepers.ReleaseUnused(0));
  keepers.Add(0, &a);
  keepers.Add(1, &b);
  keepers.Add(0, &c);
  EXPECT_TRUE(keepers.ReleaseUnused(0));
  EXPECT_EQ(asked, "ac");
  keepers.Remove(&a);
  EXPECT_FALSE(keepers.ReleaseUnused(0));
  EXPECT_FALSE(keepers.ReleaseUnused(1));
  EXPECT_EQ(asked, "accb");
}

}  // namespace
}  // namespace dpipe::cuda
