#include "core/runtime/interpreter/frozen_store.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Samples first, first + 1, ... as one-element rows.
Tensor Rows(int first, int count) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(first + i));
  return Tensor::FromHost<float>(Device::Cpu(), {count, 1}, absl::MakeConstSpan(values));
}

std::vector<float> Values(const Tensor& t) {
  return {t.data<float>(), t.data<float>() + t.num_elements()};
}

TEST(FrozenStoreTest, JoinsPartsOfQuanta) {
  FrozenStore store(/*quantum=*/4);
  store.Put(0, "latents", 7, 4, Rows(4, 4));
  store.Put(0, "latents", 7, 8, Rows(8, 2));  // the last quantum of a batch of 10
  const auto middle = store.Get(0, "latents", 7, {6, 10});
  ASSERT_TRUE(middle.ok()) << middle.status();
  EXPECT_THAT(Values(*middle), ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(Values(*store.Get(0, "latents", 7, {5, 6})), ElementsAre(5));
  EXPECT_TRUE(store.Has(0, "latents", 7, {4, 10}));
  EXPECT_FALSE(store.Has(0, "latents", 7, {3, 10}));
}

TEST(FrozenStoreTest, PiecesMayBeLargerThanAQuantum) {
  FrozenStore store(/*quantum=*/2);
  const Tensor piece = Rows(2, 6);
  store.Put(0, "latents", 7, 2, piece);
  store.Put(0, "latents", 7, 8, Rows(8, 2));
  const auto within = store.Get(0, "latents", 7, {3, 7});
  ASSERT_TRUE(within.ok()) << within.status();
  EXPECT_EQ(within->raw_data(), piece.Slice(1, 5).raw_data()) << "a copy";
  EXPECT_THAT(Values(*within), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(Values(*store.Get(0, "latents", 7, {7, 9})), ElementsAre(7, 8));
  EXPECT_THAT(Values(*store.GetQuantum(0, "latents", 7, 4)), ElementsAre(4, 5));
  EXPECT_TRUE(store.Has(0, "latents", 7, {5, 10}));
  EXPECT_FALSE(store.Has(0, "latents", 7, {1, 4}));
  EXPECT_FALSE(store.Has(0, "latents", 7, {9, 11}));
  EXPECT_FALSE(store.Get(0, "latents", 7, {9, 11}).ok());
}

TEST(FrozenStoreTest, MissingSamplesAreNamed) {
  FrozenStore store(2);
  store.Put(1, "context", 3, 0, Rows(0, 2));
  const auto value = store.Get(1, "context", 3, {0, 4});
  EXPECT_EQ(value.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(value.status().message()), HasSubstr("context"));
  EXPECT_THAT(std::string(value.status().message()), HasSubstr("sample 2 of step 3"));
  EXPECT_FALSE(store.Get(1, "context", 4, {0, 2}).ok()) << "another step";
  EXPECT_FALSE(store.Get(0, "context", 3, {0, 2}).ok()) << "another component";
}

TEST(FrozenStoreTest, DropsStepsUpToOne) {
  FrozenStore store(1);
  for (int step : {1, 2, 3}) store.Put(0, "x", step, 0, Rows(step, 1));
  store.DropThrough(2);
  EXPECT_FALSE(store.Has(0, "x", 1, {0, 1}));
  EXPECT_FALSE(store.Has(0, "x", 2, {0, 1}));
  EXPECT_TRUE(store.Has(0, "x", 3, {0, 1}));
}

TEST(FrozenStoreTest, UnalignedSamplesAreABug) {
  FrozenStore store(4);
  EXPECT_DEATH(store.Put(0, "x", 0, 2, Rows(0, 2)), "frozen sample range");
}

}  // namespace
}  // namespace dpipe
