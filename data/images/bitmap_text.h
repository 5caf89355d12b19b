// Text in images, by a built-in font of 5 x 9 pixels per letter.
//
// The font has ASCII and the ellipsis. Other letters lose their accents (utf8proc's compatibility
// decomposition), and what then is not ASCII is drawn as a hollow box.
#ifndef DPIPE_DATA_IMAGES_BITMAP_TEXT_H_
#define DPIPE_DATA_IMAGES_BITMAP_TEXT_H_

#include <string>
#include <vector>

#include "data/images/image.h"

namespace dpipe {

// Pixels from one letter to the next, and from one line to the next, at scale 1.
inline constexpr int kLetterPitch = 6;
inline constexpr int kLinePitch = 11;

// Breaks UTF-8 text at white space into lines of at most `max_letters`, and longer words anywhere.
// Text that needs more than `max_lines` is shortened, and then ends in an ellipsis. Both maxima are
// at least 1. Returns no line for blank text.
std::vector<std::string> WrapText(const std::string& text, int max_letters, int max_lines);

// Draws a line of text in black, enlarged by `scale`. (x, y) is its upper left corner. Omits pixels
// outside the image.
void DrawText(const std::string& line, int x, int y, int scale, Image* image);

}  // namespace dpipe

#endif  // DPIPE_DATA_IMAGES_BITMAP_TEXT_H_
