import com.github.bingoohuang.westid.WestId;
import io.snowlease.westid.LeasedWestIdGenerator;

/** A service that uses westid, moved to a lease by the first line of `main`: `WestIdService IDS`. Prints every ID. */
class WestIdService {
    public static void main(String[] arguments) {
        WestId.configure(new LeasedWestIdGenerator());
        for (int made = 0; made < Integer.parseInt(arguments[0]); made++) System.out.println(WestId.next());
    }
}
