// Starts the script of an error page: the switches for language and theme.

import { switches } from "./switches.js";

switches();
