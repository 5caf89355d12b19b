#include "core/ops/product/fixed_order_product.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/ops/support/parallel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dpipe::ops::cpu {

#if defined(__x86_64__)
namespace {

#define DPIPE_AVX2 __attribute__((target("avx2,fma")))

// A tile of C: of the 16 vector registers, 12 hold its sums, 2 a row of B and 1 an element of A.
constexpr int64_t kTileRows = 6, kTileColumns = 16;
// Rows of B that are packed at a time: 256 x 16 elements are 16 KiB, half of an L1 cache.
constexpr int64_t kPanelRows = 256;
// Maximum rows of A per panel, a multiple of kTileRows: with 256 columns 252 KiB, half of an L2
// cache.
constexpr int64_t kMaxRows = 252;

struct Operands {
  bool transpose_b;
  int64_t rows, n, k;
  const float* a;
  int64_t lda;
  const float* b;
  int64_t ldb;
  const float* bias;
  float* c;
  int64_t ldc;
};

// 16 columns of B, with `depth` rows that are `stride` apart.
struct Panel {
  const float* data;
  int64_t depth, stride;
};

// Transposes 8 rows of memory, `stride` apart, into 8 columns of a panel. Pairs of elements are
// exchanged within pairs of rows, then pairs of pairs, then halves of vectors.
DPIPE_AVX2 void Transpose8x8(const float* from, int64_t stride, float* to) {
  __m256 r[8], s[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(from + i * stride);
  for (int i = 0; i < 8; i += 2) {
    s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_store_ps(to + i * kTileColumns, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_store_ps(to + (i + 4) * kTileColumns, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

// Packs `panel` [depth, kTileColumns] from row k0 and column j of B on; columns beyond B's are 0.
DPIPE_AVX2 void Pack(const Operands& o, int64_t k0, int64_t depth, int64_t j, float* panel) {
  const int64_t columns = std::min(kTileColumns, o.n - j);
  if (columns < kTileColumns) std::fill_n(panel, depth * kTileColumns, 0.0f);
  if (!o.transpose_b) {
    for (int64_t p = 0; p < depth; ++p) {
      std::copy_n(o.b + (k0 + p) * o.ldb + j, columns, panel + p * kTileColumns);
    }
    return;
  }
  const float* const from = o.b + j * o.ldb + k0;
  int64_t p = 0;
  for (; columns == kTileColumns && p + 8 <= depth; p += 8) {
    Transpose8x8(from + p, o.ldb, panel + p * kTileColumns);
    Transpose8x8(from + 8 * o.ldb + p, o.ldb, panel + p * kTileColumns + 8);
  }
  for (; p < depth; ++p) {
    for (int64_t i = 0; i < columns; ++i) panel[p * kTileColumns + i] = from[i * o.ldb + p];
  }
}

// sums [kRows, kTileColumns], rows `stride` apart, += a [kRows, depth] panel, with a's rows `lda`
// apart. Loops over rows are unrolled explicitly, early enough for the sums to stay in registers.
template <int kRows>
DPIPE_AVX2 void AddTile(const Panel& panel, const float* a, int64_t lda, float* sums,
                        int64_t stride) {
  __m256 left[kRows], right[kRows];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    left[r] = _mm256_loadu_ps(sums + r * stride);
    right[r] = _mm256_loadu_ps(sums + r * stride + 8);
  }
  for (int64_t p = 0; p < panel.depth; ++p) {
    const __m256 b_left = _mm256_loadu_ps(panel.data + p * panel.stride);
    const __m256 b_right = _mm256_loadu_ps(panel.data + p * panel.stride + 8);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m256 element = _mm256_broadcast_ss(a + r * lda + p);
      left[r] = _mm256_fmadd_ps(element, b_left, left[r]);
      right[r] = _mm256_fmadd_ps(element, b_right, right[r]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    _mm256_storeu_ps(sums + r * stride, left[r]);
    _mm256_storeu_ps(sums + r * stride + 8, right[r]);
  }
}

using AddTileFn = void (*)(const Panel&, const float*, int64_t, float*, int64_t);
constexpr AddTileFn kAddTile[] = {AddTile<1>, AddTile<2>, AddTile<3>,
                                  AddTile<4>, AddTile<5>, AddTile<6>};

// Initializes rows [i, i + rows) and columns [j, j + columns) of C.
void Begin(const Operands& o, int64_t i, int64_t rows, int64_t j, int64_t columns) {
  for (int64_t r = i; r < i + rows; ++r) {
    float* const to = o.c + r * o.ldc + j;
    if (o.bias != nullptr) {
      std::copy_n(o.bias + j, columns, to);
    } else {
      std::fill_n(to, columns, 0.0f);
    }
  }
}

// Adds the product with the panel of B at row k0 and column j to rows [i, i + rows) of C.
void AddPanel(const Operands& o, const Panel& panel, int64_t i, int64_t rows, int64_t k0,
              int64_t j) {
  const int64_t columns = std::min(kTileColumns, o.n - j);
  for (int64_t r = i; r < i + rows; r += kTileRows) {
    const int64_t count = std::min(kTileRows, i + rows - r);
    const float* const a = o.a + r * o.lda + k0;
    float* const c = o.c + r * o.ldc + j;
    if (columns == kTileColumns) {
      kAddTile[count - 1](panel, a, o.lda, c, o.ldc);
      continue;
    }
    float sums[kTileRows * kTileColumns] = {};
    for (int64_t t = 0; t < count; ++t)
      std::copy_n(c + t * o.ldc, columns, sums + t * kTileColumns);
    kAddTile[count - 1](panel, a, o.lda, sums, kTileColumns);
    for (int64_t t = 0; t < count; ++t)
      std::copy_n(sums + t * kTileColumns, columns, c + t * o.ldc);
  }
}

// Computes rows [i, i + rows) and columns [j, end) of C.
void Multiply(const Operands& o, int64_t i, int64_t rows, int64_t j, int64_t end) {
  alignas(32) float packed[kPanelRows * kTileColumns];
  Begin(o, i, rows, j, end - j);
  for (int64_t k0 = 0; k0 < o.k; k0 += kPanelRows) {
    const int64_t depth = std::min(kPanelRows, o.k - k0);
    for (int64_t column = j; column < end; column += kTileColumns) {
      // A single tile of rows reads B only once: in place, if B is stored in the panel's order.
      const bool in_place = !o.transpose_b && rows <= kTileRows && column + kTileColumns <= o.n;
      if (!in_place) Pack(o, k0, depth, column, packed);
      const Panel panel = in_place ? Panel{o.b + k0 * o.ldb + column, depth, o.ldb}
                                   : Panel{packed, depth, kTileColumns};
      AddPanel(o, panel, i, rows, k0, column);
    }
  }
}

// Size of the pieces of `total`: whole units, except for the last piece.
int64_t PieceSize(int64_t total, int64_t pieces, int64_t unit) {
  const int64_t units = (total + unit - 1) / unit;
  return (units + pieces - 1) / pieces * unit;
}

int64_t NumPieces(int64_t total, int64_t size) { return (total + size - 1) / size; }

}  // namespace

bool HasFixedOrderProduct() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

void FixedOrderProduct(const Device& device, bool transpose_b, int64_t rows, int64_t n, int64_t k,
                       const float* a, int64_t lda, const float* b, int64_t ldb, const float* bias,
                       float* c, int64_t ldc) {
  if (rows == 0 || n == 0) return;
  const Operands o = {transpose_b, rows, n, k, a, lda, b, ldb, bias, c, ldc};
  const int64_t threads = device.num_threads();
  // If there are too few rows for all threads, columns are divided too.
  const int64_t some_rows = std::min(kMaxRows, PieceSize(rows, threads, kTileRows));
  const int64_t row_pieces = NumPieces(rows, some_rows);
  const int64_t some_columns =
      PieceSize(n, std::max<int64_t>(1, threads / row_pieces), kTileColumns);
  const int64_t column_pieces = NumPieces(n, some_columns);
  ParallelFor(device, row_pieces * column_pieces, [&](int64_t piece) {
    const int64_t i = piece / column_pieces * some_rows, j = piece % column_pieces * some_columns;
    Multiply(o, i, std::min(some_rows, rows - i), j, std::min(n, j + some_columns));
  });
}

#else

bool HasFixedOrderProduct() { return false; }

void FixedOrderProduct(const Device&, bool, int64_t, int64_t, int64_t, const float*, int64_t,
                       const float*, int64_t, const float*, float*, int64_t) {
  DPIPE_CHECK(false) << "products of fixed order are written for x86-64";
}

#endif

}  // namespace dpipe::ops::cpu
