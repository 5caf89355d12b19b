#include "core/tensor/cuda/memory_keepers.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::cuda {
namespace {

class Keeper : public MemoryKeeper {
 public:
  Keeper(std::string name, std::string* asked) : name_(std::move(name)), asked_(asked) {}
  void GiveUpUnused() override { *asked_ += name_; }

 private:
  const std::string name_;
  std::string* const asked_;
};

TEST(MemoryKeepersTest, ThoseOfTheGpuAreAskedInOrder) {
  std::string asked;
  Keeper a("a", &asked), b("b", &asked), c("c", &asked);
  MemoryKeepers keepers;
  keepers.GiveUpUnused(0);
  keepers.Add(0, &a);
  keepers.Add(1, &b);
  keepers.Add(0, &c);
  keepers.GiveUpUnused(0);
  EXPECT_EQ(asked, "ac");
  keepers.Remove(&a);
  keepers.GiveUpUnused(0);
  keepers.GiveUpUnused(1);
  EXPECT_EQ(asked, "accb");
}

}  // namespace
}  // namespace dpipe::cuda
