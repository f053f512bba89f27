/* Tiles in both precisions, and rows of doubles and floats that are summed in doubles. */

#define REAL double
#include "tile.h"
#define STORED_HALF 0
#define KIND double
#include "rows.h"
#undef KIND
#define KIND float
#include "rows.h"
#undef KIND
#undef STORED_HALF
#undef REAL
#define REAL float
#include "tile.h"
#undef REAL
