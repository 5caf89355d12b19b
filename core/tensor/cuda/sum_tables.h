// Conversion of ordered sums to kernel arguments.
#ifndef DPIPE_CORE_TENSOR_CUDA_SUM_TABLES_H_
#define DPIPE_CORE_TENSOR_CUDA_SUM_TABLES_H_

#include <vector>

#include "absl/types/span.h"
#include "core/tensor/cuda/sum_table.h"
#include "core/tensor/ordered_sum.h"

namespace dpipe::cuda {

// Returns tables of all sums, in order, without those that have no elements. A sum may have at most
// SumTable::kMaxTerms terms.
std::vector<SumTable> SumTablesOf(absl::Span<const OrderedSum> sums);

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_SUM_TABLES_H_
