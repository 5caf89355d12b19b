#include "core/tensor/add_up.h"

#include <vector>

#include "core/base/philox.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

std::vector<float> Normals(int64_t count, uint64_t seed) {
  RandomStream random(seed, 0, 0, RandomPurpose::kTest);
  std::vector<float> values(count);
  for (float& value : values) value = random.NextNormal();
  return values;
}

// For any number of terms and at odd addresses; elements beside the sum stay as they are.
TEST(AddUpTest, AddsFromLeftToRight) {
  for (const int64_t count : {0, 1, 63, 64, 65, 128, 1000}) {
    for (int num_terms = 1; num_terms <= 9; ++num_terms) {
      for (const bool adds : {false, true}) {
        std::vector<std::vector<float>> terms;
        for (int t = 0; t < num_terms; ++t) terms.push_back(Normals(count + t, t));
        std::vector<float> values = Normals(count + 2, 100), expected = values;
        for (int64_t i = 0; i < count; ++i) {
          float total = terms[0][i];
          for (int t = 1; t < num_terms; ++t) total += terms[t][i + t];
          expected[i + 1] = adds ? expected[i + 1] + total : total;
        }
        OrderedSum sum = {values.data() + 1, {}, count, adds};
        for (int t = 0; t < num_terms; ++t) sum.terms.push_back(terms[t].data() + t);
        AddUp(sum);
        ASSERT_EQ(values, expected) << count << " numbers, " << num_terms << " terms";
      }
    }
  }
}

TEST(AddUpTest, ATermMayBeTheSum) {
  const std::vector<float> other = Normals(777, 1), before = Normals(777, 2);
  std::vector<float> values = before, expected = before;
  for (size_t i = 0; i < values.size(); ++i) {
    expected[i] = before[i] + ((other[i] + before[i]) + other[i]);
  }
  AddUp({values.data(), {other.data(), values.data(), other.data()}, 777, /*adds=*/true});
  EXPECT_EQ(values, expected);
}

}  // namespace
}  // namespace dpipe
