#include "core/tensor/cuda/sum_tables.h"

#include <algorithm>

#include "core/base/check.h"

namespace dpipe::cuda {
namespace {

bool HasRoomFor(const SumTable& table, int num_terms) {
  return table.num_sums < SumTable::kMaxSums && table.num_terms + num_terms <= SumTable::kMaxTerms;
}

}  // namespace

std::vector<SumTable> SumTablesOf(absl::Span<const OrderedSum> sums) {
  std::vector<SumTable> tables;
  for (const OrderedSum& sum : sums) {
    if (sum.count == 0) continue;
    const int num_terms = static_cast<int>(sum.terms.size());
    DPIPE_CHECK(num_terms >= 1 && num_terms <= SumTable::kMaxTerms)
        << "a sum has " << num_terms << " terms";
    if (tables.empty() || !HasRoomFor(tables.back(), num_terms)) tables.push_back(SumTable{});
    SumTable& table = tables.back();
    const uint32_t blocks = static_cast<uint32_t>((sum.count + SumTable::kElementsOfBlock - 1) /
                                                  SumTable::kElementsOfBlock);
    table.sums[table.num_sums] = {sum.sum,
                                  sum.count,
                                  table.blocks() + blocks,
                                  static_cast<uint8_t>(table.num_terms),
                                  static_cast<uint8_t>(num_terms),
                                  sum.adds};
    std::copy(sum.terms.begin(), sum.terms.end(), table.terms + table.num_terms);
    ++table.num_sums;
    table.num_terms += num_terms;
  }
  return tables;
}

}  // namespace dpipe::cuda
