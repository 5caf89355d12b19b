// The parts of the Unicode Character Database that a CLIP tokenizer needs, in sorted tables.
//
// unicode.h has the functions that use them. Written by make_unicode_tables.py; the first line of
// unicode_tables.cc has the version of the database.
#ifndef DPIPE_MODELS_TOKENIZER_UNICODE_TABLES_H_
#define DPIPE_MODELS_TOKENIZER_UNICODE_TABLES_H_

#include <cstdint>

namespace dpipe::unicode {

// Code points first..last, inclusive.
struct CodeRange {
  char32_t first;
  char32_t last;
};

// Each of first, first + step, ..., last becomes lower case by adding `delta`.
struct LowercaseRun {
  char32_t first;
  char32_t last;
  uint32_t step;
  int32_t delta;
};

// Code points with a canonical combining class other than 0.
struct CombiningRun {
  char32_t first;
  char32_t last;
  uint8_t combining_class;
};

// `code` decomposes canonically into `head` and `tail` (0: head alone). `composes` is true if
// normal form C composes the pair again.
struct Decomposition {
  char32_t code;
  char32_t head;
  char32_t tail;
  bool composes;
};

extern const CodeRange kLetters[];  // general categories L*
extern const int kLettersCount;
extern const CodeRange kNumbers[];  // general categories N*
extern const int kNumbersCount;
extern const LowercaseRun kLowercase[];
extern const int kLowercaseCount;
extern const CombiningRun kCombining[];
extern const int kCombiningCount;
extern const Decomposition kDecompositions[];
extern const int kDecompositionsCount;

}  // namespace dpipe::unicode

#endif  // DPIPE_MODELS_TOKENIZER_UNICODE_TABLES_H_
