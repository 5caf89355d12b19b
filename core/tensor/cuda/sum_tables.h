// From ordered sums to what kernels take.
#ifndef DPIPE_CORE_TENSOR_CUDA_SUM_TABLES_H_
#define DPIPE_CORE_TENSOR_CUDA_SUM_TABLES_H_

#include <vector>

#include "absl/types/span.h"
#include "core/tensor/cuda/sum_table.h"
#include "core/tensor/ordered_sum.h"

namespace dpipe::cuda {

// Tables of all the sums, in their order; those without elements are left out. A sum has at most
// SumTable::kMaxTerms terms.
std::vector<SumTable> SumTablesOf(absl::Span<const OrderedSum> sums);

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_SUM_TABLES_H_
